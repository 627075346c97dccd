"""Model files of the current format can be read and used on."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from sonline import OnlineLearner, persistence
from sonline.parameters import SKETCHES

FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.glob("model-*.sonline"))


@pytest.fixture(scope="module")
def make() -> ModuleType:
    spec = importlib.util.spec_from_file_location("golden_make", FOLDER / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_version_and_sketch_has_its_files() -> None:
    versions = range(1, persistence.FORMAT_VERSION + 1)
    wanted = {f"model-{version}-{sketch}" for version in versions for sketch in SKETCHES}
    assert wanted <= {file.stem for file in FILES}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_golden_model(file: Path, make: ModuleType) -> None:
    """Predictions and further learning are those of the program that wrote the file.

    Up to rounding: other processors and compilers may add in another order.
    """
    expected = json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))
    model = OnlineLearner.load(file)
    # Parameters that came later have their defaults.
    assert model.params == {**model.params, **expected["parameters"]}
    assert model.features() == expected["features"]
    predictions = model.predict(make.rows(10, seed=3))
    np.testing.assert_allclose(predictions, expected["predictions"], rtol=1e-9, atol=1e-12)
    predictions = model.learn(make.rows(20, seed=4), make.labels(20, seed=5))
    np.testing.assert_allclose(predictions, expected["continued"], rtol=1e-7, atol=1e-10)
