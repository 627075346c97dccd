"""``sonline evaluate``: how well a model predicts rows with labels."""

from __future__ import annotations

import json as jsonlib
import math
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from sonline import streams
from sonline.cli import command_app
from sonline.cli import options as shared
from sonline.cli.judge import measures
from sonline.cli.outputs import GrowingFiles, check_outputs
from sonline.cli.progress import number
from sonline.cli.trained import Trained
from sonline.evaluate import AUC, R2, Curve, LogLoss

app = command_app()


class Scores:
    """All metrics that fit the task of a model."""

    def __init__(self, model: Trained) -> None:
        self._model = model
        self._loss = Curve()
        self._error = Curve()
        self._square = Curve()
        self._log = Curve()
        self._auc, self._r2, self._binary_log = AUC(), R2(), LogLoss()
        self.unknown = 0

    def add(
        self, raw: NDArray[np.float64], targets: NDArray[Any], weights: NDArray[np.float64] | None
    ) -> None:
        """Take in predictions of rows with their targets."""
        model = self._model
        if model.task == "regression":
            self._loss.update(measures(model, raw, targets)[0], weights)
            self._square.update((raw[0] - targets) ** 2, weights)
            self._r2.update(targets, raw[0], weights)
            return
        known = targets != (-1 if model.task == "classes" else 0)
        self.unknown += int((~known).sum())
        loss, wrong = measures(model, raw, targets)
        assert wrong is not None  # noqa: S101 - this is no regression
        self._error.update(np.where(known, wrong, 1.0), weights)
        own = None if weights is None else weights[known]
        self._loss.update(loss[known], own)
        raw, targets = raw[:, known], targets[known]
        if len(model.classes()) == 2:
            signs = np.where(targets == 1, 1.0, -1.0)
            self._auc.update(signs, raw[0], own)
            self._binary_log.update(signs, raw[0], own)
        elif model.parameters.loss == "logistic" and targets.size:
            chance = model.probabilities(raw)[targets, np.arange(targets.size)]
            self._log.update(-np.log(np.maximum(chance, 1e-300)), own)

    def as_dict(self) -> dict[str, Any]:
        """Return the metrics by name; None where there is nothing to measure."""
        model = self._model
        if model.task == "regression":
            found = {
                "loss": self._loss.average,
                "rmse": math.sqrt(self._square.average) if self._square.rows else math.nan,
                "r2": self._r2.value,
            }
            rows = self._loss.rows
        else:
            found = {"loss": self._loss.average, "error": self._error.average}
            if len(model.classes()) == 2:
                found["auc"] = self._auc.value
            if model.parameters.loss == "logistic":
                two = len(model.classes()) == 2
                found["log_loss"] = self._binary_log.value if two else self._log.average
            rows = self._error.rows
        plain: dict[str, Any] = {
            name: None if math.isnan(value) else value for name, value in found.items()
        }
        return {"rows": rows, **plain}


@app.command()
def evaluate(
    *,
    data: shared.Data,
    model: shared.ModelFile,
    progressive: Annotated[
        bool,
        typer.Option(
            "--progressive",
            help="Learn each row after it was predicted; the model file stays as it is.",
        ),
    ] = False,
    format: shared.Format = "auto",  # noqa: A002 - the name of the option
    on_error: shared.OnError = "stop",
    bad_rows: shared.BadRows = None,
    json: shared.Json = False,
    quiet: shared.Terse = False,
) -> None:
    """Measure a model on rows with labels: loss, error, AUC, log-loss, RMSE.

    Example: sonline evaluate test.svm.gz -m clicks.son --json
    """
    check_outputs([*data, str(model)], bad_rows=bad_rows)
    trained = Trained.load(model)
    scores = Scores(trained)
    files = GrowingFiles({"bad_rows": bad_rows}, lambda text: typer.echo(text, err=True))
    skipped = 0
    own = trained.options(frozen=not progressive, label_names=list(trained.tokens))
    chosen = {"format": str(format), "on_error": str(on_error)}
    with files, streams.open(data, **(own | chosen)) as stream:
        if not (quiet or json):
            typer.echo(stream.told, err=True)
        for batch in stream:
            skipped += batch.skipped
            files.write("bad_rows", batch.bad_text())
            if progressive:
                for part in trained.learn(batch, batch.weights, stream.files[batch.start.file]):
                    scores.add(part.raw, part.targets, part.weights)
            else:
                targets, _ = trained.targets(batch)
                scores.add(trained.predict(batch), targets, batch.weights)
    result = {
        **scores.as_dict(),
        "loss_name": trained.parameters.loss,
        "progressive": progressive,
        "skipped": skipped,
        "unknown_labels": scores.unknown,
    }
    if json:
        typer.echo(jsonlib.dumps(result, indent=1))
        return
    for name, value in result.items():
        if name in ("loss_name", "progressive"):
            continue
        if name in ("skipped", "unknown_labels"):
            if value:
                typer.echo(f"{name.replace('_', ' '):<15}{value}")
        elif name == "rows":
            typer.echo(f"{name:<15}{value}")
        else:
            typer.echo(f"{name.replace('_', '-'):<15}{number(value)}")
