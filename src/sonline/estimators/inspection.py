"""What can be seen of a fitted estimator: measures, weights by column, explanations."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from sklearn.exceptions import NotFittedError

from sonline.errors import InvalidInputError, shown
from sonline.evaluate import Curve, Progress
from sonline.model import Model, NextRows
from sonline.rows import Floats
from sonline.rows.columns import one_row
from sonline.rows.sides import Sides

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from onnx import ModelProto


COMPARED_ROWS = 20  # of a batch of `partial_fit` that the frozen model predicts, too


class Inspected:
    """The part of an estimator that shows what it has learned."""

    _model: Model

    def _fitted(self) -> Model:
        """Return the model; raise an error if the estimator is not fitted."""
        try:
            return self.__dict__["_model"]  # type: ignore[no-any-return]
        except KeyError:
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' or "
                "'partial_fit' first."
            ) from None

    @property
    def model(self) -> Model:
        """The `Model` that this estimator uses."""
        return self._fitted()

    @property
    def progress_(self) -> Curve:
        """`progressive_loss_` after 1, 2, 4, 8, ... rows."""
        return self._attribute("progress_").progress.loss

    @property
    def progressive_loss_(self) -> float:
        """Mean loss of the predictions made before each row was learned for the first time."""
        return self._attribute("progressive_loss_").progress.loss.average

    @property
    def frozen_loss_(self) -> float:
        """Mean loss of batches of `partial_fit` that the model predicted before learning them."""
        return self._frozen("frozen_loss_").loss.average

    def _frozen(self, name: str) -> Progress:
        """Return the measures of the frozen model; without any, the attribute does not exist."""
        measures: Progress = self.__dict__.get("_next_rows", NextRows()).frozen
        if measures.loss.weight == 0:
            raise AttributeError(
                f"{type(self).__name__} has no {name!r} before some batches of partial_fit: they "
                f"need {COMPARED_ROWS} rows each, and ten times as many rows before them"
            )
        return measures

    def _attribute(self, name: str) -> Model:
        """Return the model for an attribute that exists only after fitting."""
        if "_model" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no {name!r} before it is fitted")
        return self._model

    def _coefficients(self, weights: Floats) -> Floats:
        """Return `_by_column`; without it, the attribute ``coef_`` does not exist."""
        try:
            return self._by_column(weights)
        except InvalidInputError as error:
            raise AttributeError(f"there is no coef_: {error}") from None

    def _by_column(self, weights: Floats) -> Floats:
        """Return weights of features as weights of all columns of X."""
        names = getattr(self, "feature_names_in_", None)
        numbers = {} if names is None else {name: column for column, name in enumerate(names)}
        chosen = []
        for feature in self._model.features():
            column = feature if isinstance(feature, int) else numbers.get(feature)
            if column is None and names is None:
                raise InvalidInputError(
                    f"coef_ and ONNX need one weight per column of X, and this model knows "
                    f"features by name (such as {feature!r}) but no columns yet: call partial_fit "
                    "with a data frame; weights() returns the weights by feature"
                )
            if column is None:
                raise InvalidInputError(
                    f"feature {feature!r} is not a column of X: coef_ and ONNX need one weight per "
                    "column, so encode text (OneHotEncoder) and dates first; weights() returns the "
                    "weights by feature"
                )
            chosen.append(column)
        width = getattr(self, "n_features_in_", max(chosen, default=-1) + 1)
        try:
            table = np.zeros((weights.shape[0], width))
        except (MemoryError, ValueError):  # sparse rows may have any column
            raise InvalidInputError(
                f"{width:,} columns do not fit into memory; weights() has the weights by feature"
            ) from None
        table[:, chosen] = weights
        return table

    def explain_one(self, row: Any, label: Any = None) -> dict[str | int, float]:
        """Return what each feature of a row adds to its raw prediction, largest first.

        The intercept is the part ``"(intercept)"``; the sum of all parts is the prediction of
        regression, or the `decision_function`. Values beyond `value_limits` count as large as the
        limit, so for such rows the sum differs from ``row @ coef_ + intercept_``.

        Parameters
        ----------
        row : mapping, sequence of numbers, or a frame or array of one row
            By name or column, or all columns.
        label : optional
            The class, as in `weights`.
        """
        return self._fitted().explain(self._mapping(row), label)

    def _mapping(self, row: Any) -> Any:
        """Return one row as a mapping by name or column."""
        row = one_row(row)
        if hasattr(row, "items"):
            return row
        if getattr(row, "ndim", 1) == 2:
            if row.shape[0] != 1:
                raise InvalidInputError(f"one row is expected, got {row.shape[0]}")
            row = row.toarray() if hasattr(row, "toarray") else row
        values = np.atleast_1d(np.asarray(row)).ravel().tolist()
        names = getattr(self, "feature_names_in_", range(len(values)))
        wanted = getattr(self, "n_features_in_", len(values))
        if isinstance(row, str) or len(values) != wanted:
            raise InvalidInputError(
                f"a row is a mapping from columns to values, or a value for each of the {wanted} "
                f"columns; got {shown(row)}"
            )
        return dict(zip(names, values, strict=True))

    def value_limits(self) -> tuple[Floats, Floats]:
        """Return the lowest and highest value of each column that `predict` uses as it is.

        Values beyond are cut (see `scaling`). Both are 0 for columns that were always 0.
        """
        low, high = self._by_column(np.array(self._fitted().limits())[:, 1:])
        return low, high

    def value_centres(self) -> Floats:
        """Return the centre of each column with a large offset, and 0 for all others."""
        return self._by_column(self._fitted().centres()[np.newaxis, 1:]).ravel()

    def column_hats(self) -> list[tuple[int, Floats, Floats]]:
        """Return column, knots and values of each column with a curve.

        The values are what the curve adds at the knots to what `coef_` says, a row for each row of
        `coef_`. In between the curve is a line, and beyond the knots nothing is added any more.
        """
        model = self._fitted()
        outputs = [model.hats(output) for output in range(model.outputs)]
        columns = self._columns()
        return [
            (
                columns.index(slot),
                knots,
                model.in_order(np.array([hats[slot][1] for hats in outputs])),
            )
            for slot, (knots, _) in outputs[0].items()
        ]

    def column_pairs(self) -> list[tuple[tuple[int, int], tuple[Sides, Sides], Floats]]:
        """Return columns, sides and weights of each pair, a row for each row of `coef_`."""
        model = self._fitted()
        outputs = [model.maps(output) for output in range(model.outputs)]
        columns = self._columns()
        return [
            (
                (columns.index(slots[0]), columns.index(slots[1])),
                sides,
                model.in_order(np.array([maps[number][2] for maps in outputs])),
            )
            for number, (slots, sides, _, _) in enumerate(outputs[0])
        ]

    def _columns(self) -> list[int]:
        """Return the number of the feature that each column is, from 1 on."""
        slots = np.arange(1, len(self._fitted().features()) + 1, dtype=np.float64)
        return cast(list[int], self._by_column(slots[np.newaxis]).ravel().astype(int).tolist())

    def report(self) -> Figure:
        """Draw the progressive loss, the spectrum of the sketch and the largest weights.

        Needs matplotlib (``pip install "sonline[plot]"``); `sonline.plots` has single plots.
        """
        from sonline import plots  # noqa: PLC0415 - matplotlib is an extra

        return plots.report(self)

    def to_onnx(self, path: str | os.PathLike[str] | None = None) -> ModelProto:
        """Return the fitted model in ONNX, and write it to ``path`` if there is one.

        Needs onnx (``pip install "sonline[onnx]"``); see `sonline.export.to_onnx`.
        """
        from sonline import export  # noqa: PLC0415 - onnx is an extra

        return export.to_onnx(self, path)
