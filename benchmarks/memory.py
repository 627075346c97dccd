"""Peak memory of a fresh process: many features, and a file larger than the memory it may take."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks import data, peers
from benchmarks.learners import DEFAULT, OJA, Learner
from benchmarks.measure import Result
from benchmarks.settings import Settings
from benchmarks.text import BLOCK

SECTION = "memory"
FEATURES = 10_000_000
MEGABYTES = 2000
PEAK = """
import re
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024)
"""
# Rows are made on the way: 1,000 rows of 100 new features at a time.
LEARN = """
import json, sys
import numpy as np
import scipy.sparse as sp
from sonline import OnlineLearner
features, settings = json.loads(sys.argv[1])
learner, random = OnlineLearner(dtype="float32", **settings), np.random.default_rng(0)
ends = np.arange(0, 100_001, 100, dtype=np.int32)
for start in range(0, features, 100_000):
    values = random.random(100_000, dtype=np.float32) - np.float32(0.5)
    indices = np.arange(start, start + 100_000, dtype=np.int32)
    y = np.where(random.random(1000) > 0.5, 1.0, -1.0)
    learner.learn(sp.csr_matrix((values, indices, ends), shape=(1000, features)), y)
assert learner.stats()["features"] >= features
"""
LEARN_VW = """
import json, sys
from vowpalwabbit import Workspace
Workspace(json.loads(sys.argv[1])[0]).finish()
"""
TRAIN = """
import json, sys
from sonline.cli.train import app
app(json.loads(sys.argv[1]), standalone_mode=False)
"""


def measure(settings: Settings) -> Iterator[Result]:
    if not Path("/proc/self/status").exists():
        return
    yield from many_features(settings)
    yield from large_file(settings)


def many_features(settings: Settings) -> Iterator[Result]:
    features = settings.size(FEATURES)
    case = f"{features:,} features seen, float32"
    for learner in (OJA, DEFAULT):
        peak = peak_memory(LEARN, [features, arguments_of(learner)])
        about = {"features": features, "bytes per feature": peak / features}
        yield Result(SECTION, case, learner.name, "MB", megabytes(peak), about=about)
    if peers.Workspace is not None:
        path = settings.folder / "many.vw"
        write_features(path, features)
        bits = peers.vw_bits(features)
        for options in ("", peers.vw_oja(10)):
            peak = peak_memory(LEARN_VW, [f"--quiet -d {path} -b {bits} {options}"])
            about = {"features": features, "bits": bits}
            name = f"{peers.vw_name(options)} -b {bits}"
            yield Result(SECTION, case, name, "MB", megabytes(peak), peer=True, about=about)


def write_features(path: Path, features: int) -> None:
    """Write the rows of LEARN as Vowpal Wabbit text."""
    with path.open("w", encoding="ascii") as file:
        for start in range(0, features, 100):
            pairs = " ".join(f"{feature}:.5" for feature in range(start, start + 100))
            file.write(f"{1 if start % 200 else -1} | {pairs}\n")


def large_file(settings: Settings) -> Iterator[Result]:
    """Train on a file of 2 GB: memory of the process, and size of the model."""
    size = settings.size(MEGABYTES)
    path, model = settings.folder / "huge.svm", settings.folder / "huge.son"
    blocks = [data.texts(data.generated(data.MAIN, BLOCK, seed))[0] for seed in range(4)]
    data.generated.cache_clear()
    with path.open("wb") as file:
        while file.tell() < size * 1e6:
            for block in blocks:
                file.write(block)
    del blocks
    case = f"sonline train on a file of {path.stat().st_size / 1e9:.1f} GB"
    peak = peak_memory(TRAIN, [str(path), "-o", str(model), "--quiet"])
    path.unlink()
    yield Result(SECTION, case, "peak memory", "MB", megabytes(peak))
    yield Result(SECTION, case, "the model's file", "MB", megabytes(model.stat().st_size))


def peak_memory(program: str, arguments: list[object]) -> int:
    """Return the largest resident memory of a process that runs the program, in bytes."""
    done = subprocess.run(
        [sys.executable, "-c", program + PEAK, json.dumps(arguments)],
        check=True,
        capture_output=True,
        text=True,
    )
    return int(done.stdout.splitlines()[-1])


def megabytes(size: int) -> dict[str, list[float]]:
    return {"memory": [size / 1e6]}


def arguments_of(learner: Learner) -> dict[str, object]:
    about = learner.about
    return {**{k: about[k] for k in ("sketch", "scaling", "alpha")}, "sketch_size": learner.size}
