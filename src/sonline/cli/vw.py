"""``sonline vw``: the common options of Vowpal Wabbit, with the same meaning."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NoReturn

import typer

from sonline.cli import command_app
from sonline.cli.predict import _run as run_predictions
from sonline.cli.run import Settings
from sonline.cli.train import start
from sonline.cli.trained import Trained
from sonline.errors import ParameterError

app = command_app()

LOSSES = ("squared", "logistic", "hinge", "quantile")
HOLDOUT_PERIOD = 10  # Vowpal Wabbit's own, where it makes several passes


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def vw(context: typer.Context) -> None:
    """Run with the common options of Vowpal Wabbit; others are refused by name.

    Options: -d -f -i -t -p -r --passes -b --loss_function --quantile_tau --OjaNewton --sketch_size
    --alpha_inverse --learning_rate_cnt --noconstant -q --holdout_off --holdout_period --link
    --binary --quiet, and -c -k --cache_file, which have nothing to do here. Without --OjaNewton
    the learner is the default one of this program, not Vowpal Wabbit's.

    Example: sonline vw -d clicks.vw -f clicks.son --OjaNewton --sketch_size 10 -b 20
    """
    given = parse(context.args)
    if given.testonly:
        _test(given)
    else:
        start(settings_of(given), json=False, quiet=given.quiet)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ParameterError(f"vw: {message}")


def parse(arguments: list[str]) -> argparse.Namespace:
    """Return the options; a `ParameterError` for those that mean nothing here.

    Examples
    --------
    >>> parse(["-d", "a.vw", "--passes", "2"]).passes
    2
    """
    parser = _Parser(prog="sonline vw", add_help=False, allow_abbrev=False)
    add = parser.add_argument
    add("-d", "--data")
    add("file", nargs="?")
    add("-f", "--final_regressor")
    add("-i", "--initial_regressor")
    add("-t", "--testonly", action="store_true")
    add("-p", "--predictions")
    add("-r", "--raw_predictions")
    add("--passes", type=int, default=1)
    add("-b", "--bit_precision", type=int)
    add("--loss_function", choices=LOSSES)
    add("--quantile_tau", type=float)
    add("--OjaNewton", action="store_true")
    add("--sketch_size", type=int)
    add("--alpha_inverse", type=float)
    add("--learning_rate_cnt", type=float)
    add("-q", "--quadratic", action="append", default=[])
    add("--noconstant", action="store_true")
    add("--holdout_off", action="store_true")
    add("--holdout_period", type=int)
    add("--link", choices=("identity", "logistic"), default="identity")
    add("--binary", action="store_true")
    add("--quiet", action="store_true")
    add("-c", "--cache", action="store_true")
    add("-k", "--kill_cache", action="store_true")
    add("--cache_file")
    known, others = parser.parse_known_args(arguments)
    if others:
        raise ParameterError(
            f"vw: {others[0]} has no counterpart here; see sonline vw --help for what has, and "
            "sonline train --help for the options of this program"
        )
    if not known.OjaNewton and (known.sketch_size is not None or known.alpha_inverse is not None):
        raise ParameterError("vw: --sketch_size and --alpha_inverse belong to --OjaNewton")
    if known.alpha_inverse is not None and not known.alpha_inverse > 0:
        raise ParameterError(f"vw: --alpha_inverse must be above 0, got {known.alpha_inverse:g}")
    for pair in known.quadratic:
        if len(pair) != 2 or ":" in pair:
            raise ParameterError(f"vw: -q {pair}: give the first letters of two namespaces")
    known.data = known.data or known.file or "-"
    return known


def settings_of(given: argparse.Namespace) -> Settings:
    """Return the training run that the options ask for."""
    parameters: dict[str, Any] = {}
    if given.initial_regressor is None:
        parameters = {
            "loss": given.loss_function or "squared",
            "hash_bits": 18 if given.bit_precision is None else given.bit_precision,
            "intercept": not given.noconstant,
        }
    elif given.bit_precision is not None:
        parameters["hash_bits"] = given.bit_precision
    if given.quantile_tau is not None:
        parameters["quantile"] = given.quantile_tau
    if given.OjaNewton and given.initial_regressor is None:
        parameters |= {
            "sketch": "oja",
            "sketch_size": 10 if given.sketch_size is None else given.sketch_size,
            "curvature": "gradient",
            "scaling": "gradient",
        }
        if given.alpha_inverse is not None:
            parameters["alpha"] = 1 / given.alpha_inverse
        if given.learning_rate_cnt is not None:
            parameters["oja_step"] = given.learning_rate_cnt
    if given.final_regressor is None:
        raise ParameterError("vw: name the model with -f FILE")
    holdout = 0
    if given.passes > 1 and not given.holdout_off:
        holdout = given.holdout_period or HOLDOUT_PERIOD
    for name in ("binary", "link"):
        if getattr(given, name) not in (False, "identity"):
            raise ParameterError(f"vw: --{name} is for -t -p; training writes raw predictions")
    target = given.predictions or given.raw_predictions
    return Settings(
        data=[given.data],
        output=Path(given.final_regressor),
        given=parameters,
        stream={"format": "vw", "features": "auto", "interactions": given.quadratic},
        classes="binary",
        passes=given.passes,
        holdout=holdout,
        predictions=None if target is None else Path(target),
        initial=None if given.initial_regressor is None else Path(given.initial_regressor),
    )


def _test(given: argparse.Namespace) -> None:
    if given.initial_regressor is None:
        raise ParameterError("vw: -t needs a model: -i FILE")
    model = Trained.load(given.initial_regressor)
    target = given.predictions or given.raw_predictions
    kind = "raw"
    if given.predictions and (given.link == "logistic" or given.binary):
        kind = "label" if given.binary else "probability"
    run_predictions(
        model,
        [given.data],
        None if target in (None, "-", "/dev/stdout") else Path(target),
        kind,
        {"format": "vw"},
        bad_rows=None,
        json=False,
        quiet=given.quiet,
    )
