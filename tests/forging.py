"""Model files with a right checksum and wrong contents."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sonline import OnlineLearner, SONClassifier, SONRegressor, persistence, river

Change = Callable[[dict[str, Any], persistence.Tensors], None]


def forged(source: Path, target: Path, change: Change) -> Path:
    """Write a file with other contents and a checksum that fits."""
    document, tensors = persistence.read(source)
    change(document, tensors)
    persistence.write(target, document, tensors)
    return target


def classifier_file(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    model = SONClassifier(sketch_size=2).fit(rng.normal(size=(60, 3)), rng.integers(0, 3, 60))
    model.save(folder / "classifier")
    return folder / "classifier"


def replaced(document: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        document = document[key]
    if value is KeyError:
        del document[path[-1]]
    else:
        document[path[-1]] = value


def all_files(folder: Path) -> dict[str, tuple[Path, Callable[[Path], Any]]]:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.normal(size=40)
    models: dict[str, Any] = {
        "learner": OnlineLearner(sketch_size=2),
        "classifier": SONClassifier(sketch_size=2, discover_classes=True),
        "regressor": SONRegressor(sketch_size=2),
        "river": river.SONClassifier(sketch_size=2),
        "river regressor": river.SONRegressor(sketch_size=2),
    }
    models["learner"].learn(X, np.sign(y))
    models["classifier"].partial_fit(X, np.digitize(y, [-0.5, 0.5]))
    models["regressor"].fit(X, y)
    for row, label in zip(X.tolist(), y, strict=True):
        named = dict(zip("abc", row, strict=True))
        models["river"].learn_one(named, int(label > 0))
        models["river regressor"].learn_one(named, label)
    for name, model in models.items():
        model.save(folder / name)
    return {name: (folder / name, type(model).load) for name, model in models.items()}
