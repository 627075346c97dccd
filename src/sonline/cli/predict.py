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
from sonline.streams import Batch, Stream
from sonline.training import prediction_lines, prediction_objects, stream_options
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
    _check_asked(loaded, interval, active)
    kind = check_kind(loaded, kind)
    reading = rows_to_predict(loaded, label, tag) | {
        "format": str(format),
        "on_error": str(on_error),
    }
    files = GrowingFiles({"bad_rows": bad_rows}, lambda text: typer.echo(text, err=True))
    shown = not quiet and (output is not None or not sys.stdout.isatty())
    skipped, unknown, remarks = 0, Unknown(loaded), list[str]()
    try:
        with (
            files,
            streams.open(data, **reading) as stream,
            _predictions_file(output) as target,
        ):
            stream.refuse_columns_of_text(ReadOptions(tag=tag))
            for line in [] if quiet or json else _heading(loaded, stream, kind):
                typer.echo(line, err=True)
            with watched(stream, shown=shown) as batches:
                for batch in batches:
                    target.write(
                        _lines(loaded, batch, kind, interval=interval, active=active, json=json)
                    )
                    target.flush()
                    skipped += batch.skipped
                    unknown.add(batch)
                    files.write("bad_rows", batch.bad_text())
            remarks = unknown.lines(stream)
    except BrokenPipeError:  # the reader closed the pipe
        discard_output(sys.stdout)
    if skipped:
        remarks.insert(0, f"{skipped} bad rows skipped: they have no line in the output")
    for line in [] if quiet else remarks:
        typer.echo(line, err=True)


def _check_asked(model: Model, interval: float | None, active: bool) -> None:
    """Raise an error about what the model cannot tell beside its predictions."""
    if interval is not None:
        try:
            model.check_interval(interval, "--interval")
        except InvalidInputError as error:
            raise ParameterError(str(error)) from None
    if active and (model.table is None or model.only_predicts):
        raise ParameterError("--active needs a model of classes that is not compact")


def rows_to_predict(model: Model, label: str | None, tag: str | None) -> dict[str, Any]:
    """Return how rows to predict are read."""
    reading = stream_options(model, tokens=True, unlabelled=True, frozen=True)
    reading |= shared.label_column(reading, label)
    if tag is not None:
        if tag in model.reading.columns:
            raise ParameterError(f"--tag {tag}: this column is a feature of the model")
        reading["tag"] = tag
    return reading


def _heading(model: Model, stream: Stream, kind: str) -> Iterator[str]:
    """Yield what is said before the predictions."""
    yield stream.description
    if kind != "label" and model.classes == 2:
        assert model.table is not None  # noqa: S101 - it has classes
        what = "probabilities" if kind == "probability" else "raw predictions"
        yield f"{what} are those of the class {model.table.sorted_labels()[1]}"


def _lines(
    model: Model, batch: Batch, kind: str, *, interval: float | None, active: bool, json: bool
) -> str:
    """Return the predictions of a batch, and what is asked for beside them."""
    ends: Floats | None = None
    wanted: list[bool] | None = None
    marks: list[str] = []
    if interval is not None:
        raw, ends = model.predicted(batch, False, interval, batch.offsets)
        marks = [f"{low!r} {high!r}" for low, high in ends.tolist()]
    elif active:
        rows = model.rows(batch, add=False)
        raw = model.predict(rows)
        wanted = asking.wanted(model, rows).tolist()
        marks = [f"{want:d}" for want in wanted]
    else:
        raw = model.predict(batch)
    if json:
        return prediction_objects(model, raw, batch.tags, ends, wanted)
    tags = batch.tags
    if marks:
        names = batch.tags or [""] * len(marks)
        tags = [f"{mark} {name}".rstrip() for mark, name in zip(marks, names, strict=True)]
    return prediction_lines(model, raw, kind, tags)


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
    if kind not in KINDS:
        raise ParameterError(f"--as must be one of {', '.join(KINDS)}; got {kind!r}")
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
