"""River's own checks of what an estimator has to be."""

import pytest

pytest.importorskip("river", reason="River is an extra")

from river import checks

from sonline.river import SONClassifier, SONRegressor

MODELS = {
    "classifier": SONClassifier(),
    "classifier-float32-hashed": SONClassifier(sketch_size=4, hash_bits=18, loss="squared_hinge"),
    "regressor": SONRegressor(),
    "regressor-oja": SONRegressor(sketch="oja", alpha="relative:1", clip=True),
}


def cases():
    for name, model in MODELS.items():
        for number, check in enumerate(checks.yield_checks(model)):
            yield pytest.param(model, check, id=f"{name}-{check.__name__}-{number}")


@pytest.mark.parametrize(("model", "check"), list(cases()))
def test_river_checks(model, check):
    assert not model._unit_test_skips()
    check(model.clone())
