"""Every face has the learner's parameters, with the same defaults and the same text."""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest

from sonline import OnlineLearner, SONClassifier, SONRegressor
from sonline.constructors import RENAMED, first_sentence
from sonline.errors import ParameterError
from sonline.parameters import Parameters

# What a face leaves out, and the defaults that are its own.
NO_NAMES = {"hash_bits", "seed"}  # columns have numbers
FACES = {
    OnlineLearner: (set(), {}),
    SONClassifier: (NO_NAMES | {"quantile", "power", "delta", "epsilon"}, {}),
    SONRegressor: (NO_NAMES, {"loss": "squared"}),
}
RIVER = {
    "SONClassifier": ({"quantile", "power", "delta", "epsilon"}, {"dtype": "float64"}),
    "SONRegressor": (set(), {"loss": "squared", "dtype": "float64"}),
}


def faces():
    yield from ((kind, *differences) for kind, differences in FACES.items())
    try:
        from sonline import river  # noqa: PLC0415 - an extra
    except ImportError:
        return
    yield from ((getattr(river, name), *differences) for name, differences in RIVER.items())


@pytest.mark.parametrize(("kind", "left_out", "extra"), list(faces()))
def test_names_defaults_and_text(kind, left_out, extra):
    options = {
        RENAMED.get(name, name): argument.default
        for name, argument in inspect.signature(kind).parameters.items()
        if RENAMED.get(name, name) in Parameters.names()
    }
    wanted = {name: getattr(Parameters, name) for name in Parameters.names()}
    assert options == {k: v for k, v in (wanted | extra).items() if k not in left_out}
    text = " ".join((inspect.getdoc(kind) or "").replace("``", "").split())
    assert "{parameters}" not in text
    for name in set(options) - set(extra) - {"loss", "dtype"}:
        assert first_sentence(name) in text, name


def test_spark_has_them_all():
    params = pytest.importorskip("sonline.distributed.spark.params")
    assert set(params.LEARNER.values()) == set(Parameters.names())
    assert {"sketchSize", "sketchEvery", "fitIntercept", "hashBits"} <= set(params.LEARNER)
    for name, field in params.LEARNER.items():
        assert getattr(params.SONParams, name).doc == first_sentence(field)


def test_the_command_line_has_them_all():
    from sonline.cli.train import app  # noqa: PLC0415 - imports typer

    (command,) = app.registered_commands
    options = inspect.signature(command.callback).parameters
    assert set(Parameters.names()) <= set(options)
    for name in Parameters.names():
        (setting,) = options[name].annotation.__metadata__
        assert setting.help.startswith(first_sentence(name))
        assert re.search(r"\[default: .+\]$", setting.help)


def test_a_new_parameter_touches_few_files():
    """`Parameters`, the constructors, the core's configuration, and where it is used.

    ``clip`` stands for all of them: it is used in two files of the core.
    """
    root = Path(__file__).parents[2]
    files = [*root.glob("src/sonline/**/*.py"), *root.glob("cpp/**/*.[ch]pp")]
    product = [file for file in files if "paper" not in file.parts]
    actual = [file.name for file in product if re.search(r"\bclip\b", file.read_text("utf-8"))]
    assert {"parameters.py", "constructors.py", "config.hpp"} <= set(actual)
    assert len([name for name in actual if name.endswith("pp")]) <= 5, actual


@pytest.mark.parametrize("scalar", [np.float16, np.float32, np.float64, np.longdouble, np.array])
@pytest.mark.parametrize("name", ["alpha", "bound", "sigma", "eta", "oja_step", "quantile"])
def test_scalars_of_numpy_are_numbers(name, scalar):
    """As a grid of parameters has them: the core was given a truth value of NumPy, and refused."""
    learner, wanted = (OnlineLearner(**{name: value}) for value in (scalar(0.5), 0.5))
    assert learner.params == wanted.params
    assert type(learner.params[name]) is float
    learner.learn(np.eye(3), [1, -1, 1])


def test_integers_and_booleans_of_numpy(tmp_path):
    options = {"sketch_size": np.int32(3), "sketch_every": np.uint8(2), "clip": np.True_}
    for kind, *_ in faces():
        model = kind(**options, bound=np.float32(2.0))
        if hasattr(model, "fit"):
            model.fit(np.eye(4), [1, 0, 1, 0])
        else:
            model.learn_one({"a": 1.0}, 1)
        model.save(tmp_path / "model")
        kind.load(tmp_path / "model")


@pytest.mark.parametrize("name", ["loss", "alpha", "eta", "sketch_size", "clip"])
def test_arrays_are_no_parameters(name):
    with pytest.raises(ParameterError, match=f"{name} must be a single value"):
        OnlineLearner(**{name: np.array([1, 2])})
