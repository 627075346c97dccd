"""A sketch that only this test registers works on every face, in files and in merges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sonline
from sonline import OnlineLearner, SONClassifier, SONRegressor, _core, parameters
from sonline.errors import ParameterError
from sonline.model import Model

NAME = "again"


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> str:
    """Oja's sketch under a name that no table in Python knows."""
    _core.register_sketch_again(NAME, "oja")
    monkeypatch.setattr(parameters, "SKETCHES", (*parameters.SKETCHES, NAME))
    return NAME


def rows(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 6))
    return X, X @ [1.0, -2.0, 0.5, 0.0, 0.0, 3.0]


def arrays(model: Model) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in model.tensors().items()}


def fitted(face: Any, seed: int, sketch: str) -> Any:
    X, y = rows(seed)
    if face is OnlineLearner:
        made = OnlineLearner(loss="squared", sketch=sketch)
        made.learn(X, y)
        return made
    labels = y if face is SONRegressor else np.digitize(y, [-2.0, 2.0])
    return face(sketch=sketch, shuffle=False).fit(X, labels)


@pytest.mark.parametrize("face", [OnlineLearner, SONClassifier, SONRegressor])
def test_it_trains_saves_loads_and_merges(face: Any, registered: str, tmp_path: Path) -> None:
    first, other = (fitted(face, seed, registered) for seed in (1, 2))
    twin = fitted(face, 1, "oja"), fitted(face, 2, "oja")
    assert arrays(first.model) == arrays(twin[0].model)
    first.save(tmp_path / "m.son")
    loaded = sonline.load(tmp_path / "m.son")
    assert type(loaded) is face
    assert arrays(loaded.model) == arrays(first.model)
    merged = loaded.merge([other])
    assert arrays(merged.model) == arrays(twin[0].merge([twin[1]]).model)
    X, _ = rows(3)
    assert np.isfinite(np.asarray(merged.predict(X), dtype=float)).all()
    assert merged.stats()["rounds"] == 600
    assert merged.compact().stats()["rounds"] == 600


def test_a_file_with_an_unknown_sketch_is_refused_by_name(
    registered: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted(OnlineLearner, 1, registered).save(tmp_path / "m.son")
    monkeypatch.undo()
    with pytest.raises(sonline.errors.ModelFileError, match=r"sketch must be one of .*'again'"):
        sonline.load(tmp_path / "m.son")
    with pytest.raises(ParameterError, match="sketch must be one of"):
        OnlineLearner(sketch=NAME)
