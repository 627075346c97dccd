"""Every face has the learner's parameters, with the same defaults and the same text."""

import inspect
import re
from pathlib import Path

import pytest

from sonline import OnlineLearner, SONClassifier, SONRegressor
from sonline.parameters import RENAMED, Parameters, first_sentence

# What a face leaves out, and the defaults that are its own.
NO_NAMES = {"hash_bits", "seed"}  # columns have numbers
FACES = {
    OnlineLearner: (set(), {}),
    SONClassifier: (NO_NAMES | {"quantile"}, {}),
    SONRegressor: (NO_NAMES, {"loss": "squared"}),
}
RIVER = {
    "SONClassifier": ({"quantile"}, {"dtype": "float64"}),
    "SONRegressor": (set(), {"loss": "squared", "dtype": "float64"}),
}


def faces():
    yield from ((kind, *differences) for kind, differences in FACES.items())
    try:
        from sonline import river  # noqa: PLC0415 - an extra
    except ImportError:
        return
    yield from ((getattr(river, name), *differences) for name, differences in RIVER.items())


@pytest.mark.parametrize(("kind", "left_out", "own"), list(faces()))
def test_names_defaults_and_text(kind, left_out, own):
    given = {
        RENAMED.get(name, name): argument.default
        for name, argument in inspect.signature(kind).parameters.items()
        if RENAMED.get(name, name) in Parameters.names()
    }
    wanted = {name: getattr(Parameters, name) for name in Parameters.names()}
    assert given == {k: v for k, v in (wanted | own).items() if k not in left_out}
    text = " ".join((inspect.getdoc(kind) or "").replace("``", "").split())
    assert "{parameters}" not in text
    for name in set(given) - set(own) - {"loss", "dtype"}:
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

    ``follow_labels`` is the last parameter that was added to the core.
    """
    root = Path(__file__).parents[2]
    files = [*root.glob("src/sonline/**/*.py"), *root.glob("cpp/**/*.[ch]pp")]
    product = [file for file in files if "paper" not in file.parts]
    found = [file.name for file in product if "follow_labels" in file.read_text("utf-8")]
    assert {"parameters.py", "constructors.py", "config.hpp"} <= set(found)
    assert len(found) <= 5, found
