"""``sonline vw``: the common options of Vowpal Wabbit, with the same meaning."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any, NoReturn, cast

import typer

from sonline import streams
from sonline.cli import command_app
from sonline.cli.evaluate import Scores
from sonline.cli.outputs import check_outputs
from sonline.cli.predict import check_kind
from sonline.cli.train import start
from sonline.cli.vw_training import VWTraining, loss_scale, start_range
from sonline.display import number
from sonline.errors import ParameterError
from sonline.model import Model
from sonline.read_options import ReadOptions
from sonline.training import RunSettings, prediction_lines, stream_options, targets_of
from sonline.training.outputs import open_output
from sonline.training.task import have_targets

app = command_app()

LOSSES = ("squared", "logistic", "hinge", "quantile")
HOLDOUT_PERIOD = 10  # Vowpal Wabbit's default with several passes

HARMLESS = ("--adaptive", "--normalized", "--invariant", "--save_resume", "--no_stdin")
# Advice about options that are not supported.
COUNTERPARTS = {
    **dict.fromkeys(
        ("-l", "--learning_rate", "--power_t", "--initial_t"),
        "there is no step size to choose; the nearest is --alpha of sonline train",
    ),
    **dict.fromkeys(
        ("--l1", "--l2"),
        "use --alpha of sonline train: a larger one keeps weights smaller, but it counts once "
        "and not in each row",
    ),
    "--dsjson": "--json reads an example per line",
    "--cubic": "-q multiplies pairs of namespaces",
    "--csoaa": "use sonline train --classes multi with --class-weight",
    "--multilabel_oaa": "train a model for each label",
    "--daemon": "use sonline serve, or sonline predict on a pipe (-)",
}


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def vw(context: typer.Context) -> None:
    """Train and predict with the common options of Vowpal Wabbit.

    Options: -d -f -i -t -p -r --passes -b --loss_function --quantile_tau --OjaNewton --sketch_size
    --alpha --alpha_inverse --learning_rate_cnt --normalize --epoch_size (1 only) --noconstant -q
    --interactions --ngram --skips --ignore --keep --oaa --examples --holdout_off --holdout_period
    --link --binary --json --audit (with -t) --readable_model --invert_hash --quiet. Accepted
    without effect: -c -k --cache_file --adaptive --normalized --invariant --save_resume --no_stdin
    --random_seed --hash -P. Without --OjaNewton the learner is the default of sonline, not Vowpal
    Wabbit's. As in Vowpal Wabbit, --json is the format of the input.

    Example: sonline vw -d clicks.vw -f clicks.son --OjaNewton --sketch_size 10 -b 20
    """
    arguments = parse(context.args)
    if arguments.testonly:
        _test(arguments)
    else:
        _train(arguments)


def _train(arguments: argparse.Namespace) -> None:
    """Train, and write the weights as text if requested."""
    texts = {"readable_model": arguments.readable_model, "invert_hash": arguments.invert_hash}
    paths = {name: Path(target) for name, target in texts.items() if target is not None}
    check_outputs([arguments.data], **paths)
    if arguments.invert_hash is not None and arguments.data == "-":
        raise ParameterError("vw: --invert_hash reads the data again; name a file with -d")
    settings, kind = settings_of(arguments)
    model = start(
        settings,
        json=False,
        quiet=arguments.quiet,
        training=partial(VWTraining, predict_as=kind),
        face=lambda model: model.face,
    )
    for name, path in paths.items():
        from sonline.cli import vw_text  # noqa: PLC0415 - seldom wanted

        names = None
        if name == "invert_hash":
            bits = model.parameters.hash_bits or 18
            options = settings.stream.chosen()
            names = vw_text.names_of_slots(arguments.data, options, bits)
        vw_text.write_weights(model, path, names)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ParameterError(f"vw: {message}")


def parse(arguments: list[str]) -> argparse.Namespace:
    """Return the options; raise a `ParameterError` for unsupported ones.

    Examples
    --------
    >>> parse(["-d", "a.vw", "--passes", "2"]).passes
    2
    """
    parser = _Parser(prog="sonline vw", add_help=False, allow_abbrev=False)
    add = parser.add_argument
    add("-d", "--data", action="append")
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
    add("--epoch_size", type=int, choices=(1,))
    add("--alpha", type=float)
    add("--alpha_inverse", type=float)
    add("--learning_rate_cnt", type=float)
    add("--normalize", choices=("true", "false"))
    add("-q", "--quadratic", action="append", default=[])
    add("--noconstant", action="store_true")
    add("--holdout_off", action="store_true")
    add("--holdout_period", type=int, default=HOLDOUT_PERIOD)
    add("--link", choices=("identity", "logistic"))
    add("--binary", action="store_true")
    add("--quiet", action="store_true")
    add("-c", "--cache", action="store_true")
    add("-k", "--kill_cache", action="store_true")
    for name in ("--interactions", "--ngram", "--skips", "--ignore", "--keep"):
        add(name, action="append", default=[])
    add("-a", "--audit", action="store_true")
    add("--oaa", type=int)
    add("--examples", type=int)
    for name in (*HARMLESS, "--json"):
        add(name, action="store_true")
    for name in (
        "--random_seed",
        "-P",
        "--progress",
        "--cache_file",
        "--readable_model",
        "--invert_hash",
    ):
        add(name)
    add("--hash", choices=("strings", "all"))
    options, others = parser.parse_known_args(arguments)
    if others:
        word = others[0].partition("=")[0]
        instead = COUNTERPARTS.get(word, "see sonline vw --help for the supported options")
        raise ParameterError(f"vw: {word} is not supported; {instead}")
    _check(options)
    if len(options.data or []) + (options.file is not None) > 1:
        raise ParameterError("vw: -d: name one file; sonline train takes several")
    options.data = options.data[0] if options.data else options.file or "-"
    options.quadratic += options.interactions
    options.grams = _grams(options.ngram, options.skips)
    return options


def _grams(ngram: list[str], skips: list[str]) -> list[str]:
    """Return the n-grams as `sonline.streams.Options` has them: "a2" is "a:2:0", "2" "*:2:0".

    Examples
    --------
    >>> _grams(["a2", "3"], ["a1"])
    ['a:2:1', '*:3:0']
    """
    lengths: dict[str, dict[str, str]] = {}
    for name, words in (("ngram", ngram), ("skips", skips)):
        for word in words:
            letter, number = ("*", word) if word.isdigit() else (word[:1], word[1:])
            if not number.isdigit():
                raise ParameterError(
                    f"vw: --{name} {word}: give a number, or the first letter of a namespace and a "
                    "number, such as a2"
                )
            lengths.setdefault(letter, {})[name] = number
    for letter, numbers in lengths.items():
        if "ngram" not in numbers:
            raise ParameterError(f"vw: --skips {letter}: there is no --ngram for it")
    return [f"{letter}:{two['ngram']}:{two.get('skips', '0')}" for letter, two in lengths.items()]


def _check(options: argparse.Namespace) -> None:
    """Raise an error about invalid values, and options that do not go together."""
    for name in ("sketch_size", "alpha", "alpha_inverse", "learning_rate_cnt", "normalize"):
        if not options.OjaNewton and getattr(options, name) is not None:
            raise ParameterError(f"vw: --{name} belongs to --OjaNewton")
    for name in ("alpha", "alpha_inverse", "passes", "holdout_period"):
        value = getattr(options, name)
        if value is not None and not value > 0:
            raise ParameterError(f"vw: --{name} must be above 0, got {value:g}")
    if options.predictions and options.raw_predictions:
        raise ParameterError("vw: -p and -r: name one of them")
    if options.oaa is not None and (options.oaa < 2 or options.OjaNewton):
        raise ParameterError("vw: --oaa needs two classes or more, and no --OjaNewton")
    for pair in options.quadratic + options.interactions:
        if len(pair) != 2 or ":" in pair:
            raise ParameterError(f"vw: -q {pair}: give the first letters of two namespaces")
    if options.binary and options.link == "logistic":
        raise ParameterError("vw: --binary and --link: name one of them")
    letters = (
        options.quadratic + options.interactions + options.ignore + options.keep + options.ngram
    )
    if options.json and letters:
        raise ParameterError(
            "vw: --json: namespaces cannot be chosen by a letter; use sonline train --format jsonl "
            "with --interactions a*b, --ngrams COLUMN:2 and --ignore COLUMN"
        )
    if options.audit and (not options.testonly or options.json):
        raise ParameterError(
            "vw: --audit shows the features of Vowpal Wabbit text that a model predicts: "
            "-t -i MODEL --audit; --invert_hash FILE writes the weights of a training by name"
        )


def settings_of(arguments: argparse.Namespace) -> tuple[RunSettings, str]:
    """Return the settings of the training run, and the kind of predictions to write."""
    parameters: dict[str, Any] = {}
    initial = None
    loss = arguments.loss_function or ("squared" if arguments.oaa is None else "logistic")
    if arguments.initial_regressor is None:
        parameters = {
            "loss": loss,
            "hash_bits": 18 if arguments.bit_precision is None else arguments.bit_precision,
            "intercept": not arguments.noconstant,
            "clip": True,
        }
        if arguments.OjaNewton:
            parameters |= _oja_newton(arguments, loss)
    else:
        initial = Model.load(arguments.initial_regressor)
        loss = initial.parameters.loss
        if arguments.bit_precision is not None:
            parameters["hash_bits"] = arguments.bit_precision
        if arguments.loss_function is not None:
            parameters["loss"] = arguments.loss_function
    if arguments.quantile_tau is not None:
        parameters["quantile"] = arguments.quantile_tau
    target = arguments.predictions or arguments.raw_predictions
    settings = RunSettings(
        data=[arguments.data],
        output=None if arguments.final_regressor is None else Path(arguments.final_regressor),
        parameters=parameters,
        stream=ReadOptions(**_reading(arguments)),
        classes="binary" if arguments.oaa is None else [*range(1, arguments.oaa + 1)],
        limit=arguments.examples,
        passes=arguments.passes,
        holdout=arguments.holdout_period
        if arguments.passes > 1 and not arguments.holdout_off
        else 0,
        predictions=None if target is None else Path(_dash(target)),
        initial=None if arguments.initial_regressor is None else Path(arguments.initial_regressor),
        prepare=lambda model: _prepare(model, arguments),
    )
    return settings, _kind(arguments, loss, initial)


def _reading(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return how the examples are read: Vowpal Wabbit's text, or its JSON."""
    if arguments.json:
        columns = {"label": "_label", "tag": "_tag", "ngrams": ["_text:1"]}
        return {"format": "jsonl", "features": "auto", **columns}
    return {
        "format": "vw",
        "features": "auto",
        "interactions": arguments.quadratic,
        "ngrams": arguments.grams,
        "ignore": _ignored("".join(arguments.ignore), "".join(arguments.keep)),
    }


def _ignored(ignore: str, keep: str) -> list[str]:
    """Return the first letters of the namespaces to leave out: all but those to keep.

    Examples
    --------
    >>> _ignored("ba", ""), len(_ignored("", "a")), "a" in _ignored("", "a")
    (['a', 'b'], 178, False)
    """
    letters = {*ignore}
    if keep:  # a letter for each byte that a namespace in UTF-8 can start with
        kept = {letter.encode()[0] for letter in keep}
        every = chain(range(128), range(128, 0xD800, 64), range(0xE000, 0x110000, 64))
        first = {chr(code).encode()[0]: chr(code) for code in every}
        letters |= {letter for byte, letter in first.items() if byte not in kept}
    return sorted(letters)


def _prepare(model: Model, arguments: argparse.Namespace) -> None:
    """Set the range of the labels, and store in the model what only this command needs."""
    start_range(model)
    model.face = {"name": "vw"}
    if arguments.link == "logistic" or arguments.binary:
        model.face["predict_as"] = "label" if arguments.binary else "probability"
    if arguments.OjaNewton and model.parameters.loss != "squared":
        model.face["row_weight"] = 0.5


def _oja_newton(arguments: argparse.Namespace, loss: str) -> dict[str, Any]:
    """Return the parameters of the learner for ``--OjaNewton``.

    Vowpal Wabbit's gradient there is half of the derivative of its loss, and half of that goes into
    the sketch. Its squared loss is (p - y)^2, so the first half makes it this program's; for all
    other losses it is a row of weight 1/2, and with that weight the second half is sigma = 1/8.
    """
    alpha = 1.0 if arguments.alpha is None else arguments.alpha
    return {
        "sketch": "oja",
        "step": "explicit",
        "sketch_every": 1,
        "sketch_size": 10 if arguments.sketch_size is None else arguments.sketch_size,
        "curvature": "gradient",
        "sigma": 0.25 if loss == "squared" else 0.125,
        "eta": 0.0,
        "scaling": "none" if arguments.normalize == "false" else "gradient",
        "alpha": alpha if arguments.alpha_inverse is None else 1 / arguments.alpha_inverse,
        "oja_step": 2.0 if arguments.learning_rate_cnt is None else arguments.learning_rate_cnt,
    }


def _kind(arguments: argparse.Namespace, loss: str, model: Model | None) -> str:
    """Return the kind of predictions: "raw", "probability" or "label".

    A model that was read has its own, unless the arguments name another one.
    """
    if arguments.link == "logistic" and loss != "logistic":
        raise ParameterError(f"vw: --link logistic needs --loss_function logistic, not {loss}")
    if arguments.binary and loss in ("squared", "quantile"):
        raise ParameterError(f"vw: --binary needs --loss_function logistic or hinge, not {loss}")
    if arguments.raw_predictions:
        return "raw"
    table = None if model is None else model.table
    if arguments.binary or arguments.oaa is not None or (table is not None and not table.signs):
        return "label"
    if arguments.link is not None:
        return "probability" if arguments.link == "logistic" else "raw"
    return "raw" if model is None else str(model.face.get("predict_as", "raw"))


def _dash(target: str) -> str:
    return "-" if target == "/dev/stdout" else target


@contextmanager
def _output(target: str | None) -> Iterator[IO[str] | None]:
    if target is None:
        yield None
    elif _dash(target) == "-":
        yield sys.stdout
    else:
        with io.TextIOWrapper(cast(Any, open_output(Path(target))), encoding="utf-8") as file:
            yield file


def _test(arguments: argparse.Namespace) -> None:
    """Predict rows, and measure the predictions of those that have labels."""
    if arguments.initial_regressor is None:
        raise ParameterError("vw: -t needs a model: -i FILE")
    model = Model.load(arguments.initial_regressor)
    loss = model.parameters.loss
    kind = check_kind(model, _kind(arguments, loss, model))
    scores = Scores(model)
    kind_of_data = "jsonl" if arguments.json else "vw"
    options = stream_options(model, format=kind_of_data, unlabelled=True, frozen=True)
    target = arguments.predictions or arguments.raw_predictions
    read = [arguments.data, arguments.initial_regressor]
    check_outputs(read, predictions=None if target is None else Path(_dash(target)))
    audit = None
    if arguments.audit:
        from sonline.cli.vw_text import Audit  # noqa: PLC0415 - seldom wanted

        audit = Audit(model, arguments.data, options)
    with streams.open([arguments.data], **options) as stream, _output(target) as file:
        for batch in stream:
            raw = model.predict(batch)
            if file is not None:
                file.write(prediction_lines(model, raw, kind, batch.tags))
            if audit is not None:
                sys.stdout.write(audit.text(batch, prediction_lines(model, raw, kind, batch.tags)))
            targets = targets_of(model, batch)
            has_target = have_targets(model, targets)
            weights = None if batch.weights is None else batch.weights[has_target]
            scores.add(raw[:, has_target], targets[has_target], weights)
    if arguments.quiet:
        return
    scale = loss_scale(model)
    for name, value in scores.as_dict().items():
        if name == "accuracy":
            continue
        shown = (
            value if name == "rows" else number(value and value * (scale if name == "loss" else 1))
        )
        typer.echo(f"{name.replace('_', '-'):<16}{shown}", err=True)
