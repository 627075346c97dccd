"""First rows, sums and shares that no model has, in files with the right checksum."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sonline import OnlineLearner, persistence
from sonline.errors import ModelFileError


@pytest.mark.parametrize(
    ("name", "value", "named"),
    [
        ("warm_up.keys", np.uint64(2**63 + 2**40), "unknown feature"),
        ("warm_up.labels", 1e300, "unknown class"),
        ("weights.squares", -1.0, "is negative"),
        ("mean_energy", -1.0, "is negative"),
        ("0.sketch.caught_up", 2**62, "out of range"),
        ("0.next.members", 0.0, "sum that is not 1"),
        ("0.later.factors", 1e300, "out of range"),
    ],
)
def test_files_are_refused(name: str, value: Any, named: str, tmp_path: Path) -> None:
    model = OnlineLearner(hash_bits=8)
    model.learn(np.eye(4), [1, -1, 1, 1])
    model.save(tmp_path / "model")
    document, tensors = persistence.read(tmp_path / "model")
    tensors[name] = np.full_like(tensors[name], value)
    persistence.write(tmp_path / "model", document, tensors)
    with pytest.raises(ModelFileError, match=named):
        OnlineLearner.load(tmp_path / "model")
