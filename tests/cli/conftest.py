"""The real executable, and small files for it."""

import os
import resource
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

SONLINE = Path(sysconfig.get_path("scripts"), "sonline")

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def sonline(tmp_path: Path) -> Run:
    """Run the executable in its own folder; fail on an unexpected exit code."""

    def run(*arguments: object, code: int = 0, **settings: object):
        done = subprocess.run(
            [SONLINE, *map(str, arguments)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            **settings,
        )
        assert done.returncode == code, done.stderr
        return done

    return run


def small_disk(size: int) -> dict[str, Any]:
    """Return settings for a run that cannot write more than ``size`` bytes to a file.

    Python must not write compiled code then: truncated files would break later runs.
    """

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return {"preexec_fn": limit, "env": {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}}


def svmlight(rows: int, *, seed: int = 0, classes: int = 2, features: int = 60) -> str:
    """Return rows whose values are exact in binary; two classes are -1 and 1."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(classes, features + 1))
    lines = []
    for _ in range(rows):
        indices = np.sort(rng.choice(features, 8, replace=False)) + 1
        values = rng.integers(1, 17, 8) / 4 * rng.choice([-1, 1], 8)
        best = int(np.argmax(truth[:, indices] @ values))
        label = 2 * best - 1 if classes == 2 else best + 1
        pairs = " ".join(f"{i}:{v:g}" for i, v in zip(indices, values, strict=True))
        lines.append(f"{label} {pairs}\n")
    return "".join(lines)


def tensors(path: Path) -> dict[str, bytes]:
    """Return the learner's arrays in a model file, as bytes."""
    return {name: array.tobytes() for name, array in load_file(path).items()}


def identity(path: Path) -> bytes:
    """Return a model file: the same model gives the same bytes."""
    return path.read_bytes()
