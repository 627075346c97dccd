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
from sonline.cli.outputs import check_outputs, model_file
from sonline.cli.unknown import Unknown
from sonline.cli.watching import watched
from sonline.display import number
from sonline.errors import InvalidInputError, ParameterError
from sonline.evaluate import AUC, R2, Confusion, Curve, measures
from sonline.labels import NEW, ClassTable
from sonline.model import Model, probabilities
from sonline.training import THREADS, NumberCheck, stream_options, targets_of
from sonline.training.outputs import GrowingFiles

app = command_app()

MOST_SHOWN = 20  # classes of a confusion matrix that is printed


class Scores:
    """All metrics that fit the task of a model."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._loss = Curve()
        self._error = Curve()
        self._square = Curve()
        self._log = Curve()
        self._auc, self._r2 = AUC(), R2()
        self.confusion = Confusion()
        self.unknown = 0
        self.weighted = False

    def add(
        self,
        raw: NDArray[np.float64],
        targets: NDArray[Any],
        weights: NDArray[np.float64] | None,
        classes: int | None = None,
    ) -> None:
        """Update the metrics with predictions and targets; `NEW` is an unknown class.

        ``classes`` is the number of classes of the predictions, if not all of the model's.
        """
        model = self._model
        self.weighted |= weights is not None
        classes = model.classes if classes is None else classes
        if model.table is None:
            self._loss.update(measures(model.parameters, raw, targets, 0)[0], weights)
            means = model.means(raw[0])
            self._square.update((means - targets) ** 2, weights)
            self._r2.update(targets, means, weights)
            return
        has_target = targets != NEW
        self.unknown += int((~has_target).sum())
        # Rows of an unknown class have no loss and cannot be predicted: they are only counted.
        raw, targets = raw[:, has_target], targets[has_target]
        known_weights = None if weights is None else weights[has_target]
        loss, wrong = measures(model.parameters, raw, targets, classes)
        self._error.update(wrong, known_weights)
        self._loss.update(loss, known_weights)
        chosen = raw[0] > 0 if classes == 2 else raw.argmax(axis=0)
        self.confusion.update(targets, chosen, model.classes, known_weights)
        if classes == 2:
            signs = np.where(targets == 1, 1.0, -1.0)
            self._auc.update(signs, raw[0], known_weights)
        elif model.probabilistic and targets.size:
            chance = probabilities(raw, classes)[targets, np.arange(targets.size)]
            self._log.update(-np.log(np.maximum(chance, 1e-300)), known_weights)

    def refuse_unknown(self) -> None:
        """Raise an error if there are rows, but none has a label that the model knows."""
        table = self._model.table
        if table is not None and self.unknown and not self._error.rows:
            labels = ", ".join(map(str, table.sorted_labels()[:MOST_SHOWN]))
            raise InvalidInputError(
                f"none of the {self.unknown} rows has a label of the model ({labels}); "
                "name the label column with --label"
            )

    def as_dict(self) -> dict[str, Any]:
        """Return the metrics by name; None where there is nothing to measure."""
        model = self._model
        if model.table is None:
            metrics = {
                "loss": self._loss.average,
                "rmse": math.sqrt(self._square.average) if self._square.rows else math.nan,
                "r2": self._r2.value,
            }
            rows = self._loss.rows
        else:
            error = self._error.average
            metrics = {"loss": self._loss.average, "error": error, "accuracy": 1 - error}
            if model.classes == 2:
                metrics["auc"] = self._auc.value
            metrics |= self._by_class(model.table)
            if model.probabilistic:
                # With two classes, the logistic loss is the log loss.
                log_loss = self._loss if model.classes == 2 else self._log
                metrics["log_loss"] = log_loss.average
            rows = self._error.rows
        plain: dict[str, Any] = {
            name: None if math.isnan(value) else value for name, value in metrics.items()
        }
        return {"rows": rows, **plain}

    def _by_class(self, table: ClassTable) -> dict[str, float]:
        """Return precision, recall and F1: of the second label, or the mean over all classes."""
        metrics = {name: getattr(self.confusion, name) for name in ("precision", "recall", "f1")}
        if not self.confusion.matrix.size:
            return dict.fromkeys(metrics, math.nan)
        if len(table) == 2:
            second = table.numbers[table.sorted_labels()[1]]
            return {name: float(values[second]) for name, values in metrics.items()}
        return {name: float(values.mean()) for name, values in metrics.items()}

    def by_class(self) -> dict[str, Any]:
        """Return the confusion matrix and the measures of each class, in sorted order."""
        table = self._model.table
        if table is None or not self.confusion.matrix.size:
            return {}
        labels = table.sorted_labels()
        order = [table.numbers[label] for label in labels]
        confusion = self.confusion
        return {
            "labels": labels,
            "confusion": confusion.matrix[np.ix_(order, order)].tolist(),
            "classes": {
                str(label): {
                    "precision": float(confusion.precision[number]),
                    "recall": float(confusion.recall[number]),
                    "f1": float(confusion.f1[number]),
                    "weight": float(confusion.matrix[number].sum()),
                }
                for label, number in zip(labels, order, strict=True)
            },
        }


@app.command()
def evaluate(
    *,
    data: shared.Data,
    model: shared.ModelFile,
    progressive: Annotated[
        bool,
        typer.Option(
            "--progressive",
            help="Train on each row after predicting it. The model file does not change.",
        ),
    ] = False,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="Print only this metric: loss, error, accuracy, auc, f1, log-loss, rmse, ... May "
            "be repeated."
        ),
    ] = None,
    label: shared.OtherLabelColumn = None,
    format: shared.Format = "auto",  # noqa: A002 - the name of the option
    on_error: shared.OnError = "stop",
    bad_rows: shared.BadRows = None,
    json: shared.Json = False,
    quiet: shared.Terse = False,
) -> None:
    """Evaluate a model on labelled rows: loss, error, AUC, F1, confusion matrix, RMSE.

    With two classes, precision, recall and F1 are those of the class that sorts last, such as 1 or
    yes. With more classes, they are means over the classes.

    Example: sonline evaluate test.svm.gz -m clicks.son --json
    """
    check_outputs([*data, model_file(model)], bad_rows=bad_rows)
    loaded = Model.load(model)
    scores = Scores(loaded)
    names = [name for name in scores.as_dict() if name != "rows"]
    metrics = [_metric(word, names) for word in metric or []]
    files = GrowingFiles({"bad_rows": bad_rows}, lambda text: typer.echo(text, err=True))
    skipped, unknown = 0, Unknown(loaded)
    reading = stream_options(loaded, frozen=not progressive)
    chosen: dict[str, Any] = {"format": str(format), "on_error": str(on_error)}
    chosen |= shared.label_column(reading, label)
    check = NumberCheck(loaded) if loaded.table is None else None
    with files, streams.open(data, **(reading | chosen)) as stream:
        if not (quiet or json):
            typer.echo(stream.description, err=True)
        with watched(stream, shown=not quiet) as batches:
            for all_rows in batches:
                batch = all_rows
                if check is not None:
                    batch = all_rows.checked(check.reasons(all_rows), str(on_error))
                skipped += batch.skipped
                files.write("bad_rows", batch.bad_text())
                if progressive:
                    learned = loaded.learn_batch(batch, batch.weights, THREADS)
                    counted = learned.counted(batch.weights)
                    for rows, raw, classes in learned.parts():
                        weights = None if counted is None else counted[rows]
                        scores.add(raw, learned.targets[rows], weights, classes)
                else:
                    unknown.add(batch)
                    raw = loaded.predict(batch)
                    scores.add(raw, targets_of(loaded, batch), batch.weights)
    for line in [] if quiet else unknown.lines(stream):
        typer.echo(line, err=True)
    scores.refuse_unknown()
    result = {
        **scores.as_dict(),
        "loss_name": loaded.parameters.loss,
        "progressive": progressive,
        "skipped": skipped,
        "unknown_labels": scores.unknown,
    }
    if json:
        result |= scores.by_class()
    if metrics:
        result = {name: result.get(name) for name in metrics}
    if json:
        typer.echo(jsonlib.dumps(result, indent=1))
    elif metrics:
        typer.echo(_lines(result))
    else:
        typer.echo(_text(result) + _matrix(scores.by_class(), scores.weighted))


def _metric(word: str, names: list[str]) -> str:
    """Return the name of a metric, which may also be written as it is printed."""
    name = word.replace("-", "_")
    if name not in names:
        shown = ", ".join(names).replace("_", "-")
        raise ParameterError(f"--metric must be one of {shown}; got {word!r}")
    return name


def _lines(metrics: dict[str, Any]) -> str:
    """Return metrics in full precision: one alone, or several with their names."""
    shown = {name: repr(math.nan if value is None else value) for name, value in metrics.items()}
    if len(shown) == 1:
        return next(iter(shown.values()))
    return "\n".join(f"{name.replace('_', '-')} {value}" for name, value in shown.items())


def _text(result: dict[str, Any]) -> str:
    lines = []
    for name, value in result.items():
        if name in ("loss_name", "progressive"):
            continue
        shown = str(value) if name in ("rows", "skipped", "unknown_labels") else number(value)
        if value != 0 or name not in ("skipped", "unknown_labels"):
            lines.append(f"{name.replace('_', ' ' if 'unknown' in name else '-'):<15}{shown}")
    return "\n".join(lines)


def _matrix(by_class: dict[str, Any], weighted: bool) -> str:
    """Return the confusion matrix as text, if there are not too many classes."""
    labels = [str(label) for label in by_class.get("labels", [])]
    if not 1 < len(labels) <= MOST_SHOWN:
        return ""
    cells = [[f"{value:g}" for value in line] for line in by_class["confusion"]]
    widths = [max(map(len, column)) for column in zip(labels, *cells, strict=True)]
    first = max(map(len, labels))
    lines = [" ".join([" " * first, *map(str.rjust, labels, widths)])]
    lines += [
        " ".join([label.ljust(first), *map(str.rjust, line, widths)])
        for label, line in zip(labels, cells, strict=True)
    ]
    what = "weights of rows" if weighted else "rows"
    return "\n".join(["", f"{what} by class (down) and predicted class (across)", *lines])
