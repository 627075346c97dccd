"""``sonline train``: learn a model from a stream."""

from __future__ import annotations

import json as jsonlib
import math
import shlex
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from sonline.cli import SIGNALLED, command_app
from sonline.cli import options as shared
from sonline.cli.config import Config, SaveConfig, save_config
from sonline.cli.outputs import check_outputs
from sonline.display import Display, number, open_console
from sonline.errors import ParameterError, require
from sonline.labels import label_of
from sonline.model import Model
from sonline.read_options import ReadOptions
from sonline.rows import check_class_weights
from sonline.streams.sources import expand
from sonline.training import (
    ENDING,
    EVERY_SECONDS,
    RunSettings,
    Training,
    checkpoint_times,
)
from sonline.training.outputs import STDOUT, best_of, check_checkpoint

app = command_app()

TOP_WEIGHTS = 20  # in the report


@app.command()
@shared.with_parameters
@shared.with_reading
def train(
    *,
    context: typer.Context,
    data: shared.Data,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Model file to write. Without it, only the loss is reported."
        ),
    ] = None,
    parameters: dict[str, Any],
    passes: Annotated[int, typer.Option(min=1, help="Number of passes over the files.")] = 1,
    shuffle: Annotated[
        int,
        typer.Option(
            min=0,
            help="Shuffle the rows within blocks of N rows, anew in each pass. 0: do not shuffle.",
        ),
    ] = 0,
    holdout: Annotated[
        int, typer.Option(min=0, help="Hold out every N-th row and report their score. 0: none.")
    ] = 0,
    validation: Annotated[
        list[str] | None,
        typer.Option(help="Evaluate this file after each pass and keep the best model."),
    ] = None,
    patience: Annotated[
        int, typer.Option(min=1, help="With --validation: stop after N passes without improvement.")
    ] = 3,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Stop after N rows.", show_default=False)
    ] = None,
    predictions: Annotated[
        Path | None,
        typer.Option(
            help="Write the raw predictions made before training on each row to this file."
        ),
    ] = None,
    classes: Annotated[
        str, typer.Option(help="auto, binary, multi, or the labels (a,b,c).")
    ] = "auto",
    class_weight: Annotated[
        list[str] | None,
        typer.Option(help="CLASS=WEIGHT: weight of the rows of this class. May be repeated."),
    ] = None,
    features: Annotated[
        str, typer.Option(help="auto, index, name or hash (with --hash-bits).")
    ] = "auto",
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Save the model and its position in the data to this file during training."
        ),
    ] = None,
    checkpoint_every: Annotated[
        str | None,
        typer.Option(
            help="Rows (100000) or seconds (60s) between checkpoints "
            f"[default: {EVERY_SECONDS:g}s]."
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue from --checkpoint (or from --output).")
    ] = False,
    initial: Annotated[
        Path | None, typer.Option("--from", help="Continue training this model with new data.")
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            help="Train on Dask, file by file: tcp://HOST:PORT of the scheduler, or local:N."
        ),
    ] = None,
    reading: dict[str, Any],
    bad_rows: shared.BadRows = None,
    page: Annotated[
        Path | None,
        typer.Option(
            "--report", help="Write an HTML page about the run: summary, loss curve, weights."
        ),
    ] = None,
    config: Config = None,
    save_to: SaveConfig = None,
    json: shared.Json = False,
    quiet: shared.Quiet = False,
) -> None:
    """Train a model on files or streams: svmlight, Vowpal Wabbit text or tables.

    Each row is predicted before the model trains on it, so the reported loss and error are those
    of rows that the model had not seen.

    Example: sonline train clicks.csv.gz --label click -o clicks.son
    """
    if save_to is not None:
        check_outputs(data, save_config=save_to)
        save_config(save_to, context)
    every_rows, every_seconds = checkpoint_times(checkpoint_every, checkpoint is not None)
    settings = RunSettings(
        data=data,
        output=output,
        parameters=parameters,
        stream=ReadOptions(**reading, features=features),
        classes=classes,
        class_weights=_class_weights(class_weight or []),
        validation=expand(validation) if validation else [],
        patience=patience,
        passes=passes,
        shuffle=shuffle,
        holdout=holdout,
        limit=limit,
        predictions=predictions,
        bad_rows=bad_rows,
        checkpoint=checkpoint,
        every_rows=every_rows,
        every_seconds=every_seconds,
        initial=initial,
        resume=resume,
    )
    if holdout == 1:
        raise ParameterError("--holdout 1 holds out every row; nothing would be learned")
    if page is not None:
        require("matplotlib", "plot")
        check_outputs(data, report=page)
        if cluster is not None or page.suffix.lower() != ".html":
            raise ParameterError("--report needs a name that ends in .html, and no --cluster")
    if cluster is not None:
        from sonline.cli.cluster import train_on_cluster  # noqa: PLC0415 - Dask is an extra

        train_on_cluster(settings, cluster, json=json, quiet=quiet)
        return
    start(settings, json=json, quiet=quiet, page=page)


def start(
    settings: RunSettings,
    *,
    json: bool,
    quiet: bool,
    page: Path | None = None,
    training: Callable[..., Training] = Training,
    face: Callable[[Model], dict[str, Any]] = lambda model: {"name": "command line"},
) -> Model:
    """Train, save and report; return the model. After a signal, exit with 128 plus its number.

    ``face`` returns the note of the command that is saved with a model.
    """
    _check(settings)
    read = [*settings.data, *settings.validation]
    check_outputs(
        read,
        output=settings.output,
        # One file may be both the checkpoint and, in the end, the model.
        checkpoint=None if settings.checkpoint == settings.output else settings.checkpoint,
        predictions=settings.predictions,
        bad_rows=settings.bad_rows,
    )
    if settings.checkpoint is not None and settings.validation:
        check_outputs(read, checkpoint=best_of(settings.checkpoint))
    check_checkpoint("--checkpoint", settings.checkpoint)
    console = open_console()
    silent = quiet or (json and not console.is_terminal)
    display = Display(console, silent)
    run = training(settings, display, signals=ENDING)
    with display:
        model = run.run()
        target = run.resumable if run.interrupted else settings.output
        if target is not None:
            _save(model, target, face(model))
    if run.interrupted and target is None:
        sys.stderr.write(
            f"interrupted after {run.rows:,} rows; nothing is saved without --output\n"
        )
        raise typer.Exit(SIGNALLED + run.interrupted)
    if run.interrupted:
        again = shlex.join([*sys.argv[1:], *([] if settings.resume else ["--resume"])])
        sys.stderr.write(
            f"interrupted after {run.rows:,} rows; saved in {target}. To continue:\n"
            f"  sonline {again}\n"
        )
        raise typer.Exit(SIGNALLED + run.interrupted)
    if (unused := run.class_weights.unused(model.table)) and not quiet:
        sys.stderr.write(f"warning: --class-weight: no row has the label {', '.join(unused)}\n")
    if (label := _only_label(model)) is not None and not quiet:
        sys.stderr.write(
            f"warning: all rows have the label {label}, so there is nothing to learn\n"
        )
    if run.absent_columns and not quiet:
        names = ", ".join(map(repr, run.absent_columns))
        sys.stderr.write(f"warning: no row has the column {names}, which an option names\n")
    if (warning := run.next_rows.warning(" (--validation)")) and not quiet:
        sys.stderr.write(f"warning: {warning}\n")
    result = report(run, model, display.seconds())
    if json:
        typer.echo(jsonlib.dumps(result, indent=1))
    elif not quiet:
        typer.echo(summary(result), err=str(settings.predictions) == "-")
    if page is not None:
        from sonline.cli.inspect import describe, draw, text_of  # noqa: PLC0415 - seldom wanted

        command = shlex.join(["sonline", *sys.argv[1:]])
        facts = describe(model, settings.output, TOP_WEIGHTS)
        text = f"{command}\n\n{summary(result)}\n\n{text_of(facts)}"
        draw(model, page, f"Training on {run.description}", text)
    return model


def _only_label(model: Model) -> Any:
    """Return the label of all rows so far; None if there are several, or numbers to predict."""
    if model.table is None:
        return None
    if model.table.undecided:  # neither -1 nor 0 has occurred
        return 1
    return model.table.labels[0] if len(model.table) == 1 else None


def _save(model: Model, path: Path, made_by: dict[str, Any]) -> None:
    """Save a model; if that fails, save it in a temporary folder: it may have taken hours."""
    try:
        model.save(path, made_by)
    except OSError as error:
        try:
            rescued = Path(tempfile.mkdtemp(prefix="sonline-"), path.name)
            model.save(rescued, made_by)
        except OSError:
            raise error from None
        raise OSError(
            f"{path}: {error.strerror or error}; the model is saved in {rescued} instead"
        ) from error


def _class_weights(words: list[str]) -> dict[Any, float]:
    weights = {}
    for word in words:
        label, _, number = word.rpartition("=")
        try:
            weights[label_of(label)] = float(number)
        except ValueError:
            label = ""
        if not label:
            raise ParameterError(f"--class-weight must be CLASS=WEIGHT, got {word!r}")
    check_class_weights(weights)
    return weights


def _check(settings: RunSettings) -> None:
    if str(settings.output) == STDOUT:
        raise ParameterError("--output -: a model needs a file; name one")
    if settings.validation and settings.resume and settings.checkpoint is None:
        raise ParameterError(
            "--resume with --validation needs --checkpoint: --output has the best pass only"
        )
    if settings.shuffle and (settings.holdout or settings.predictions is not None):
        raise ParameterError(
            "--shuffle: rows change their places, so --holdout would hold out others in each pass, "
            "and --predictions would not be in the order of the rows"
        )
    if settings.resume and settings.checkpoint is None and settings.output is None:
        raise ParameterError("--resume needs the file to continue from: --checkpoint or --output")


def report(run: Training, model: Model, seconds: float) -> dict[str, Any]:
    """Return the result as values that JSON can hold."""
    summaries = [*run.past, run.summary()]
    facts = {k: _shown(v) for k, v in run.next_rows.as_dict().items()}
    if run.validation is not None:
        facts["best_pass"] = run.validation.best_pass
    return result_of(
        run.settings,
        model,
        [{k: _shown(v) for k, v in values.items()} for values in summaries],
        seconds,
        input=run.description,
        rows=run.rows,
        skipped=run.skipped,
        **facts,
    )


def result_of(
    settings: RunSettings,
    model: Model,
    passes: list[dict[str, Any]],
    seconds: float,
    **facts: Any,
) -> dict[str, Any]:
    """Return the result of a run, here or on a cluster, with the measures of its passes."""
    stats = model.stats()
    return {
        "model": None if settings.output is None else str(settings.output),
        "task": model.task,
        "classes": [] if model.table is None else model.table.sorted_labels(),
        **facts,
        "passes": passes,
        "loss_name": model.parameters.loss,
        **{k: v for k, v in passes[-1].items() if k != "rows"},
        "features": stats["features"],
        "sweeps": stats["sweeps"],
        "model_bytes": stats["bytes"],
        "seconds": round(seconds, 3),
    }


def _shown(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def _loss_and_error(values: dict[str, Any], kind: str) -> str:
    error = f", error {number(values[f'{kind}_error'])}" if f"{kind}_error" in values else ""
    return f"{number(values[f'{kind}_loss'])}{error}"


def summary(result: dict[str, Any]) -> str:
    """Return the result as text."""
    lines = [
        f"rows            {result['rows']:,}"
        + (f" ({result['skipped']:,} bad, skipped)" if result["skipped"] else "")
    ]
    several = len(result["passes"]) > 1
    for count, measures in enumerate(result["passes"], 1):
        where = f" pass {count}" if several else ""
        what = f"{number(measures.get('loss'))} ({result['loss_name']}, progressive)"
        if "error" in measures:
            what += f", error {number(measures['error'])}"
        lines.append(f"{'loss' + where:<15} {what}")
        if "holdout_loss" in measures:
            lines.append(f"{'held out' + where:<15} {_loss_and_error(measures, 'holdout')}")
        if "validation_loss" in measures:
            best = ", the best pass" if several and count == result.get("best_pass") else ""
            values = _loss_and_error(measures, "validation")
            lines.append(f"{'validation' + where:<15} {values}{best}")
    if "frozen_loss" in result:
        values = _loss_and_error(result, "frozen")
        rows = f"{result['frozen_rows']:,} rows, before learning them"
        lines.append(f"{'frozen':<16}{values} (on {rows})")
    if len(result["classes"]) > 2:
        lines.append(f"classes         {len(result['classes'])}")
    where = result["model"] or "not saved"
    lines += [
        f"features        {result['features']:,}",
        f"time            {result['seconds']:.2f} s",
        f"model           {where} ({result['model_bytes']:,} bytes in memory)",
    ]
    return "\n".join(lines)
