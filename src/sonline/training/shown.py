"""Rows that a training run shows."""

from __future__ import annotations

from sonline.display import Display, in_a_cell
from sonline.evaluate import Curve, Point
from sonline.model import LearnResult, Model
from sonline.streams import Batch
from sonline.training.predictions import prediction_lines


def show_row(
    display: Display,
    model: Model,
    batch: Batch,
    learned: LearnResult,
    *,
    point: Point,
    row: int,
    errors: Curve,
) -> None:
    """Show one row of a batch: its label, its prediction and the averages so far."""
    table = model.table
    target = learned.targets[row]
    label = in_a_cell(target, "g") if table is None else str(table.labels[int(target)])

    def predicted() -> str:
        for rows, raw, classes in learned.parts():
            if rows.start <= row < rows.stop:
                column = row - rows.start
                line = prediction_lines(model, raw[:, column : column + 1], "label", None, classes)
                return in_a_cell(float(line), ".4f") if table is None else line.strip()
        return ""

    features = int(batch.indptr[row + 1] - batch.indptr[row])
    # The points of the error curve are at the same rows.
    error = next(
        (p.average for p in reversed(errors.points) if p.rows == point.rows),
        float("nan"),
    )
    display.row(point, error, label, predicted, features)
