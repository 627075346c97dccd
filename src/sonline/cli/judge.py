"""What predictions are worth and how they are written; what labels say about the task."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonline.cli.trained import Label, Trained, label_of
from sonline.errors import ParameterError
from sonline.evaluate import Curve, losses
from sonline.parameters import Parameters

MANY_CLASSES = 200  # more numbers than this among the first labels are no classes


@dataclass
class Metrics:
    """Progressive loss and error of a pass, and those of rows held out."""

    loss: Curve = field(default_factory=Curve)
    error: Curve = field(default_factory=Curve)
    holdout_loss: Curve = field(default_factory=Curve)
    holdout_error: Curve = field(default_factory=Curve)

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as values that JSON can hold."""
        return {name: curve.as_dict() for name, curve in vars(self).items()}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Metrics:
        """Make metrics from what `as_dict` returned."""
        return cls(**{name: Curve.from_dict(curve) for name, curve in plain.items()})

    def summary(self) -> dict[str, Any]:
        """Return the averages that are known."""
        return {name: curve.average for name, curve in vars(self).items() if curve.weight > 0} | {
            "rows": self.loss.rows + self.holdout_loss.rows
        }


def measures(
    model: Trained, raw: NDArray[np.float64], targets: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Return the loss of each row, and for classes whether it is wrong.

    With several classes the loss is the mean over "this class or not".
    """
    loss, level = model.parameters.loss, model.parameters.quantile
    if model.task == "regression":
        return losses(loss, targets, raw[0], level), None
    if model.task == "binary":
        wrong = (raw[0] > 0) != (targets > 0)
        return losses(loss, targets, raw[0], level), wrong.astype(np.float64)
    codes = [1] if len(model.labels) == 2 else range(raw.shape[0])
    total = np.zeros(targets.size)
    for line, code in enumerate(codes):
        total += losses(loss, np.where(targets == code, 1.0, -1.0), raw[line], level)
    return total / raw.shape[0], (model.chosen(raw) != targets).astype(np.float64)


def lines(model: Trained, raw: NDArray[np.float64], kind: str, tags: list[str] | None) -> str:
    """Return predictions as text, a line per row, with its tag."""
    if kind == "label" and model.task != "regression":
        names = [str(label) for label in model.classes()]
        rows = [names[code] for code in model.chosen(raw).tolist()]
    else:
        numbers = raw
        if kind == "probability":
            numbers = model.probabilities(raw)
            numbers = numbers[1:] if numbers.shape[0] == 2 else numbers
        if numbers.shape[0] == 1:
            rows = [repr(value) for value in numbers[0].tolist()]
        else:
            rows = [" ".join(map(repr, line)) for line in numbers.T.tolist()]
    if tags is not None:
        rows = [f"{row} {tag}" if tag else row for row, tag in zip(rows, tags, strict=True)]
    return "".join(f"{row}\n" for row in rows)


def task_of(
    parameters: Parameters, labels: list[Label], classes: str, loss_given: bool
) -> tuple[str, list[Label], bool]:
    """Return the task, the classes known beforehand, and whether more may come."""
    if not parameters.binary:
        return "regression", [], False
    if classes not in ("auto", "binary", "multi"):
        declared = [label_of(word.strip()) for word in classes.split(",")]
        if len(set(declared)) < max(2, len(declared)):
            raise ParameterError(f"--classes {classes}: name two or more different classes")
        return "classes", declared, False
    if classes == "binary" or (classes == "auto" and set(labels) <= {-1, 0, 1}):
        return "binary", [], False
    if classes == "auto" and not loss_given:
        fractions = any(isinstance(label, float) for label in labels)
        if fractions or (len(labels) > MANY_CLASSES and not isinstance(labels[0], str)):
            shown = ", ".join(str(label) for label in labels[:4])
            raise ParameterError(
                f"labels such as {shown} look like numbers to be predicted: use --loss squared "
                "(or quantile), or --classes multi if each of them is a class"
            )
    return "classes", [], True


def said(labels: list[Label], growing: bool) -> str:
    """Return the classes for people."""
    shown = ", ".join(str(label) for label in labels[:10])
    more = ", ..." if len(labels) > 10 else ""
    return f"classes: {shown}{more}{' (and any that come)' if growing else ''}"
