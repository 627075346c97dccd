"""Export fitted models to ONNX. Needs the package ``onnx``."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from sonline.errors import InvalidInputError, require
from sonline.rows.sides import Sides

require("onnx", "onnx")

import onnx  # noqa: E402 - says what is missing first
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

__all__ = ["to_onnx"]

OPSET = 15  # of 2021: any runtime in use knows it


def to_onnx(estimator: Any, path: str | os.PathLike[str] | None = None) -> onnx.ModelProto:
    """Return a fitted `SONClassifier` or `SONRegressor` as an ONNX model.

    The model takes "X", float32 of shape (rows, features). A regressor gives "predictions"; a
    classifier gives "labels", "scores" (those of `decision_function`, always with a column per
    class: for two classes minus and plus the score) and, with the logistic loss, "probabilities".

    Columns with curves (``curves``) keep them: a curve is a sum of lines between two knots.
    Predictions are linear or piecewise linear in a feature once it has occurred 16 times. A model
    without such a feature cannot be exported; if it has others, they are counted in a warning.

    Parameters
    ----------
    estimator : SONClassifier or SONRegressor
        A fitted estimator.
    path : path-like, optional
        A file to write.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sonline import SONClassifier
    >>> from sonline.export import to_onnx
    >>> model = to_onnx(SONClassifier().fit(*load_iris(return_X_y=True)))
    >>> [output.name for output in model.graph.output]
    ['labels', 'scores', 'probabilities']
    """
    if not getattr(estimator, "__sklearn_is_fitted__", bool)():
        raise InvalidInputError(
            f"estimator: expected a fitted SONClassifier or SONRegressor, got {estimator!r}"
        )
    parameters = estimator.model.parameters
    if parameters.bound is not None and parameters.several:
        count = len(parameters.members) + len(parameters.diagonal)
        raise InvalidInputError(
            f"estimator: with alpha={parameters.alpha!r} and a bound, the prediction is a blend of "
            f"{count} linear models, each bounded, which is not a linear model; fit it with one "
            "alpha, such as 'relative:0.1', or without the bound"
        )
    _check_young(estimator)
    graph = _Graph(estimator.value_centres(), *estimator.value_limits())
    graph.hats = estimator.column_hats()
    graph.pairs = estimator.column_pairs()
    if is_classifier(estimator):
        _classifier(graph, estimator)
    else:
        _regressor(graph, estimator)
    model = graph.model(type(estimator).__name__)
    if path is not None:
        Path(path).write_bytes(model.SerializeToString())
    return model


def _check_young(estimator: Any) -> None:
    """Raise an error if predictions are not linear yet, and warn if some features are too new."""
    young = estimator.model.young()[1:]
    if young.size and young.all():
        raise InvalidInputError(
            "estimator: no feature has occurred 16 times yet; until then its scale includes the "
            "row that is predicted, and an exported model would predict otherwise: learn more rows"
        )
    sizes = estimator.model.core.scales()[1 : young.size + 1]
    rare = int((young & (sizes != 1)).sum())  # 0 and 1 have the same scale in any row
    if rare:
        warnings.warn(
            f"{rare} of {young.size} features have occurred fewer than 16 times: the exported "
            "model may predict rows that have them otherwise",
            stacklevel=3,
        )


def _regressor(graph: _Graph, estimator: Any) -> None:
    raw = graph.linear(estimator.coef_[:, np.newaxis], estimator.intercept_)
    raw = graph.limited(raw, *estimator.prediction_range())
    if estimator.model.parameters.log_link:
        raw = graph.add("Exp", raw)
    flat = graph.add("Reshape", raw, graph.constant(np.array([-1], dtype=np.int64)))
    graph.output("predictions", flat, TensorProto.FLOAT, ["rows"])


def _classifier(graph: _Graph, estimator: Any) -> None:
    coef, intercept = estimator.coef_.T, estimator.intercept_
    low, high = estimator.prediction_range()
    labels = estimator.classes_
    if labels.size == 2:
        coef, intercept = np.hstack([-coef, coef]), np.hstack([-intercept, intercept])
        graph.hats = [(column, knots, np.vstack([-v, v])) for column, knots, v in graph.hats]
        graph.pairs = [(columns, sides, np.vstack([-v, v])) for columns, sides, v in graph.pairs]
        low, high = np.hstack([-high, low]), np.hstack([-low, high])
    scores = graph.limited(graph.linear(coef, intercept), low, high)
    best = graph.add("ArgMax", scores, axis=1, keepdims=0)
    text = labels.dtype.kind in "OU"
    values = labels.astype(object) if text else labels.astype(np.int64)
    if not text and not np.array_equal(values, labels):
        raise InvalidInputError(
            f"classes_: ONNX knows labels of text and whole numbers, got {labels.tolist()}"
        )
    kind = TensorProto.STRING if text else TensorProto.INT64
    graph.output("labels", graph.add("Gather", graph.constant(values), best), kind, ["rows"])
    graph.output("scores", scores, TensorProto.FLOAT, ["rows", labels.size])
    if estimator.loss != "logistic":
        return
    if labels.size == 2:
        chances = graph.add("Sigmoid", scores)
    else:  # as sonline.model.probabilities
        unlikely = graph.add("Softplus", graph.add("Neg", scores))
        half = graph.constant(np.array(0.5, dtype=np.float32))
        chances = graph.add("Softmax", graph.add("Mul", graph.add("Sub", scores, unlikely), half))
    graph.output("probabilities", chances, TensorProto.FLOAT, ["rows", labels.size])


class _Graph:
    """An ONNX graph under construction; values are known by their names."""

    def __init__(self, centres: NDArray[Any], low: NDArray[Any], high: NDArray[Any]) -> None:
        self._features = centres.size
        self.hats: list[tuple[int, NDArray[Any], NDArray[Any]]] = []
        self.pairs: list[tuple[tuple[int, int], tuple[Sides, Sides], NDArray[Any]]] = []
        self._centres = centres
        seen = low < high
        self._low, self._high = np.where(seen, low, -np.inf), np.where(seen, high, np.inf)
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._outputs: list[Any] = []

    def constant(self, values: NDArray[Any]) -> str:
        name = f"constant{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        name = f"value{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def linear(self, coef: NDArray[Any], intercept: NDArray[Any]) -> str:
        values = self.limited("X", self._low, self._high)
        if self._centres.any():  # first, or the digits of small differences would be lost
            values = self.add("Sub", values, self.constant(self._centres.astype(np.float32)))
            intercept = intercept + self._centres @ coef
        product = self.add("MatMul", values, self.constant(coef.astype(np.float32)))
        if self.hats:
            product = self.add("Add", product, self._curved())
            intercept = intercept + sum(values[:, 0] for _, _, values in self.hats)
        if self.pairs:
            product = self.add("Add", product, self._paired())
        return self.add("Add", product, self.constant(intercept.astype(np.float32)))

    def _curved(self) -> str:
        """Add what curves rise from their first knots on, piece by piece."""
        columns = np.repeat([column for column, _, _ in self.hats],
                            [knots.size - 1 for _, knots, _ in self.hats])  # fmt: skip
        left = np.concatenate([knots[:-1] for _, knots, _ in self.hats])
        widths = np.concatenate([np.diff(knots) for _, knots, _ in self.hats])
        rises = np.concatenate([np.diff(values, axis=1).T for _, _, values in self.hats])
        x = self.add("Gather", "X", self.constant(columns.astype(np.int64)), axis=1)
        x = self.add("Sub", x, self.constant(left.astype(np.float32)))
        x = self.add("Div", x, self.constant(widths.astype(np.float32)))
        zero, one = (self.constant(np.array(end, np.float32)) for end in (0.0, 1.0))
        x = self.add("Clip", x, zero, one)
        return self.add("MatMul", x, self.constant(rises.astype(np.float32)))

    def _paired(self) -> str:
        """Add what pairs of columns do: products of how much both count on their sides."""
        sides = {
            column: side
            for columns, both, _ in self.pairs
            for column, side in zip(columns, both, strict=True)
        }
        heights, first, behind = [], {}, 0  # first: where the sides of a column begin
        for column, side in sides.items():
            first[column] = behind
            behind += side.corners.size
            heights.append(self._heights(column, side))
        all_heights = self.add("Concat", *heights, axis=1)
        factors = []
        for number in range(2):
            cells = []
            for columns, both, _ in self.pairs:
                shape = both[0].corners.size, both[1].corners.size
                cells.append(first[columns[number]] + np.indices(shape)[number].ravel())
            chosen = self.constant(np.concatenate(cells).astype(np.int64))
            factors.append(self.add("Gather", all_heights, chosen, axis=1))
        weights = np.hstack([values for _, _, values in self.pairs]).T
        product = self.add("Mul", *factors)
        return self.add("MatMul", product, self.constant(weights.astype(np.float32)))

    def _heights(self, column: int, side: Sides) -> str:
        """Return how much a column counts on each of its sides; nothing where it is 0."""

        def numbers(values: Any) -> str:
            return self.constant(np.asarray(values, dtype=np.float32))

        def as_numbers(value: str) -> str:
            return self.add("Cast", value, to=TensorProto.FLOAT)

        x = self.add("Gather", "X", self.constant(np.array([column], np.int64)), axis=1)
        points = side.points
        if side.few:
            limits = 0.5 * points[:-1] + 0.5 * points[1:]
            above, below = np.append(-np.inf, limits), np.append(limits, np.inf)
            heights = self.add(
                "Sub",
                as_numbers(self.add("GreaterOrEqual", x, numbers(above))),
                as_numbers(self.add("GreaterOrEqual", x, numbers(below))),
            )
            heights = self.add("Mul", heights, numbers(side.heights(side.corners).max(axis=0)))
        else:
            heights = self.add("Sub", x, numbers(points[1:2]))
            heights = self.add("Div", heights, numbers(side.corners - points[1]))
            heights = self.add("Clip", heights, numbers(0.0), numbers(1.0))
        centre = self._centres[column]
        if np.float32(centre) != centre:
            return heights  # no number in X is exactly there
        absent = self.add("Equal", x, numbers(centre))
        return self.add("Mul", heights, as_numbers(self.add("Not", absent)))

    def limited(self, value: str, low: NDArray[Any], high: NDArray[Any]) -> str:
        """Clip columns, each to its range."""
        if np.isinf(low).all() and np.isinf(high).all():
            return value
        value = self.add("Max", value, self.constant(low.astype(np.float32)))
        return self.add("Min", value, self.constant(high.astype(np.float32)))

    def output(self, name: str, value: str, kind: int, shape: list[Any]) -> None:
        self._nodes.append(helper.make_node("Identity", [value], [name]))
        self._outputs.append(helper.make_tensor_value_info(name, kind, shape))

    def model(self, name: str) -> onnx.ModelProto:
        rows = helper.make_tensor_value_info("X", TensorProto.FLOAT, ["rows", self._features])
        graph = helper.make_graph(self._nodes, name, [rows], self._outputs, self._constants)
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=8,  # the one of that opset
            producer_name="sonline",
        )
        onnx.checker.check_model(model, full_check=True)
        return model
