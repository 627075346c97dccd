"""``sonline predict``: predictions for a stream of rows."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Annotated, Any, cast

import typer

from sonline import streams
from sonline.cli import command_app
from sonline.cli import options as shared
from sonline.cli.outputs import check_outputs, model_file
from sonline.cli.unknown import Unknown
from sonline.cli.watching import watched
from sonline.errors import InvalidInputError, ParameterError
from sonline.files import discard_output, replacing
from sonline.model import Model, asking
from sonline.read_options import ReadOptions
from sonline.rows import Floats
from sonline.streams import Batch
from sonline.training import interval_lines, prediction_lines, prediction_objects, stream_options
from sonline.training.outputs import STDOUT, GrowingFiles

app = command_app()

KINDS = ("auto", "probability", "label", "mean", "raw")


@app.command()
def predict(
    *,
    data: shared.Data,
    model: shared.ModelFile,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File for the predictions [default: standard output]."),
    ] = None,
    kind: Annotated[
        str,
        typer.Option(
            "--as",
            help="What to print: probability, label, mean or raw. With two classes, probability is "
            "that of the class that sorts last, such as 1 or yes; with more, one number per class. "
            "mean: numbers in the unit of the label. auto: probability for the logistic loss, mean "
            "for poisson, gamma and tweedie, raw otherwise.",
        ),
    ] = "auto",
    label: shared.OtherLabelColumn = None,
    tag: Annotated[
        str | None,
        typer.Option(
            "--tag",
            help="Tables: the column whose value is printed after the prediction of each row "
            "[default: as in training].",
        ),
    ] = None,
    interval: Annotated[
        float | None,
        typer.Option(
            "--interval",
            help="Numbers: also print the ends of an interval that holds this part of the labels, "
            "such as 0.9.",
        ),
    ] = None,
    active: Annotated[
        bool,
        typer.Option(
            "--active",
            help="Classes: also print 1 if the label of the row is worth asking for, otherwise 0.",
        ),
    ] = False,
    format: shared.Format = "auto",  # noqa: A002 - the name of the option
    on_error: shared.OnError = "stop",
    bad_rows: shared.BadRows = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object per row.")] = False,
    quiet: shared.Terse = False,
) -> None:
    """Predict rows with a model, one line per row.

    Rows need no labels. Features that the model has never seen are ignored. A model that was
    trained in Python does not know the label column of a table: name it with --label if the table
    has one.

    Example: sonline predict new.svm.gz -m clicks.son --as label
    """
    check_outputs([*data, model_file(model)], output=output, bad_rows=bad_rows)
    loaded = Model.load(model)
    if interval is not None:
        try:
            loaded.check_interval(interval, "--interval")
        except InvalidInputError as error:
            raise ParameterError(str(error)) from None
    if active and (loaded.table is None or loaded.only_predicts):
        raise ParameterError("--active needs a model of classes that is not compact")
    if kind not in KINDS:
        raise ParameterError(f"--as must be one of {', '.join(KINDS)}; got {kind!r}")
    _run(
        loaded,
        data,
        output,
        check_kind(loaded, kind),
        {"format": str(format), "on_error": str(on_error)},
        label=label,
        tag=tag,
        interval=interval,
        active=active,
        bad_rows=bad_rows,
        json=json,
        quiet=quiet,
    )


def _run(
    model: Model,
    data: list[str],
    output: Path | None,
    kind: str,
    options: dict[str, Any],
    *,
    label: str | None,
    tag: str | None,
    interval: float | None,
    active: bool,
    bad_rows: Path | None,
    json: bool,
    quiet: bool,
) -> None:
    skipped, unknown, lines = 0, Unknown(model), list[str]()
    shown = not quiet and (output is not None or not sys.stdout.isatty())
    reading = stream_options(model, tokens=True, unlabelled=True, frozen=True)
    reading |= shared.label_column(reading, label)
    if tag is not None:
        if tag in model.reading.columns:
            raise ParameterError(f"--tag {tag}: this column is a feature of the model")
        reading["tag"] = tag
    files = GrowingFiles({"bad_rows": bad_rows}, lambda text: typer.echo(text, err=True))
    try:
        with (
            files,
            streams.open(data, **(reading | options)) as stream,
            _predictions_file(output) as target,
        ):
            stream.refuse_columns_of_text(ReadOptions(tag=tag))
            if not (quiet or json):
                typer.echo(stream.description, err=True)
            if not (quiet or json) and kind != "label" and model.classes == 2:
                assert model.table is not None  # noqa: S101 - it has classes
                what = "probabilities" if kind == "probability" else "raw predictions"
                name = model.table.sorted_labels()[1]
                typer.echo(f"{what} are those of the class {name}", err=True)
            with watched(stream, shown=shown) as batches:
                for batch in batches:
                    target.write(
                        _active_lines(model, batch, kind, json)
                        if active
                        else _lines(model, batch, kind, interval, json)
                    )
                    target.flush()
                    skipped += batch.skipped
                    unknown.add(batch)
                    files.write("bad_rows", batch.bad_text())
            lines = unknown.lines(stream)
    except BrokenPipeError:  # the reader closed the pipe
        discard_output(sys.stdout)
    if skipped and not quiet:
        typer.echo(f"{skipped} bad rows skipped: they have no line in the output", err=True)
    for line in [] if quiet else lines:
        typer.echo(line, err=True)


def _lines(model: Model, batch: Batch, kind: str, interval: float | None, json: bool) -> str:
    ends: Floats | None = None
    if interval is None:
        raw = model.predict(batch)
    else:
        raw, ends = model.predicted(batch, False, interval)
    if json:
        return prediction_objects(model, raw, batch.tags, ends)
    if ends is not None:
        return interval_lines(raw, ends, batch.tags)
    return prediction_lines(model, raw, kind, batch.tags)


def _active_lines(model: Model, batch: Batch, kind: str, json: bool) -> str:
    """Return predictions, and whether the label of each row is wanted."""
    rows = model.rows(batch, add=False)
    raw, wanted = model.predict(rows), asking.wanted(model, rows).tolist()
    if json:
        return prediction_objects(model, raw, batch.tags, wanted=wanted)
    names = batch.tags or [""] * len(wanted)
    marks = [f"{want:d} {name}".rstrip() for want, name in zip(wanted, names, strict=True)]
    return prediction_lines(model, raw, kind, marks)


@contextmanager
def _predictions_file(output: Path | None) -> Iterator[IO[str]]:
    """Open the file of the predictions, which appears when it is complete, or standard output."""
    if output is None or str(output) == STDOUT:
        yield sys.stdout
        return
    with replacing(output, durable=False) as file:
        text = io.TextIOWrapper(cast(Any, file), encoding="utf-8", write_through=True)
        try:
            yield text
            text.flush()
        finally:
            with suppress(OSError, ValueError):  # the error that ended the block is reported
                text.detach()


def check_kind(model: Model, kind: str) -> str:
    """Return what to print: "probability", "label", "mean" or "raw"."""
    if kind == "auto":
        with_link = "mean" if model.parameters.log_link else "raw"
        return "probability" if model.probabilistic else with_link
    if kind == "probability" and not model.probabilistic:
        raise ParameterError(
            "probabilities need loss='logistic' and classes; this model has "
            f"loss={model.parameters.loss!r}: use --as label or --as raw"
        )
    if kind == "label" and model.table is None:
        raise ParameterError("this model predicts numbers, not labels: use --as raw")
    if kind == "mean" and model.table is not None:
        raise ParameterError("this model predicts classes, not numbers: use --as label or --as raw")
    return kind
