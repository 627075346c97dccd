"""The limit of this machine: loops that only touch the memory of a learner or a parser."""

from __future__ import annotations

import ctypes
import os
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.data import Rows
from benchmarks.measure import Run, timed
from sonline import OnlineLearner

SOURCE = Path(__file__).parent / "native" / "limit.cpp"
SIZE, POINTER = ctypes.c_size_t, ctypes.c_void_p
CACHE_LINE = 64


@cache
def native() -> ctypes.CDLL:
    """Compile the loops for this processor and load them."""
    with TemporaryDirectory() as folder:
        library = Path(folder) / "limit.so"
        compiler = os.environ.get("CXX", "c++")
        flags = ["-std=c++20", "-O3", "-march=native", "-shared", "-fPIC"]
        subprocess.run([compiler, *flags, SOURCE, "-o", library], check=True)
        loops = ctypes.CDLL(str(library))
    loops.touch_blocks.argtypes = [SIZE, POINTER, POINTER, SIZE, POINTER]
    loops.touch_blocks.restype = ctypes.c_bool
    loops.scan_bytes.argtypes = [ctypes.c_char_p, SIZE]
    loops.scan_bytes.restype = SIZE
    return loops


def touch_blocks(learner: OnlineLearner, rows: Rows) -> tuple[Run, int]:
    """Return the loop over the blocks that this learner has for these rows, and floats a block."""
    learner.learn(rows.X, rows.y)
    state = learner.model.core.save()  # how many numbers a feature has, and where features lie
    stores = (state[name] for name in ("0.blocks", "scales.numbers", "diagonal") if name in state)
    slots_seen, stride = len(state["features"]), sum(store.shape[1] for store in stores)
    keys = np.asarray(state["features"], dtype=np.int64)
    slot_of = np.zeros(rows.features, dtype=np.uint32)
    slot_of[keys[1:]] = np.arange(1, slots_seen, dtype=np.uint32)
    slots = slot_of[rows.X.indices]
    values = np.full(slots.size, 1e-6, dtype=np.float32)
    blocks = aligned_zeros(slots_seen * stride)

    def run() -> None:
        if not native().touch_blocks(
            stride, slots.ctypes.data, values.ctypes.data, slots.size, blocks.ctypes.data
        ):
            raise ValueError(f"native/limit.cpp has no loop for blocks of {stride} numbers")

    run()
    return timed(run), stride


def aligned_zeros(count: int) -> np.ndarray:
    raw = np.zeros(count * 4 + CACHE_LINE, dtype=np.uint8)
    start = -raw.ctypes.data % CACHE_LINE
    return raw[start : start + count * 4].view(np.float32)


def scan_bytes(text: bytes) -> Run:
    """Return the loop that looks at every byte."""
    native()
    return timed(lambda: native().scan_bytes(text, len(text)))
