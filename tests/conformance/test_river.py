"""River's own checks of what an estimator has to be."""

from functools import partial

import pytest

pytest.importorskip("river", reason="River is an extra")

from river import checks

from sonline.river import SONClassifier, SONRegressor

MODELS = {
    "classifier": SONClassifier,
    "classifier-hashed": partial(SONClassifier, sketch_size=4, hash_bits=18, loss="squared_hinge"),
    "regressor": SONRegressor,
    "regressor-oja": partial(SONRegressor, sketch="oja", alpha="relative:1", clip=True),
}


def cases():
    for name, make in MODELS.items():
        for number, check in enumerate(checks.yield_checks(make())):
            yield pytest.param(make, check, id=f"{name}-{check.__name__}-{number}")


@pytest.mark.parametrize(("make", "check"), list(cases()))
def test_river_checks(make, check):
    model = make()
    assert not model._unit_test_skips()
    check(model)
