"""Plots of a model: its progress, its sketch, its weights. Needs matplotlib.

Every function takes an estimator of scikit-learn or River, or an `OnlineLearner`, and the axes to
draw on (default: the current axes).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from sonline.errors import InvalidInputError, require
from sonline.evaluate import Curve

require("matplotlib", "plot")

import matplotlib.pyplot as plt  # noqa: E402 - says what is missing first
from matplotlib.ticker import MaxNLocator  # noqa: E402

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["curves", "largest_weights", "loss_curve", "overview", "report", "spectrum"]

_ACROSS = 4  # panels beside each other
_ROOM = 0.4  # of a panel, for the density of its column
_NAME = 26  # characters of a column that are shown


def report(model: Any) -> Figure:
    """Draw the progressive loss (if the model stores it), the spectrum and the weights.

    Parameters
    ----------
    model : estimator or OnlineLearner
        What to look at.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sonline import SONClassifier, plots
    >>> model = SONClassifier().fit(*load_breast_cancer(return_X_y=True))
    >>> figure = plots.report(model)
    >>> [axes.get_title() for axes in figure.axes]
    ['Progressive loss', 'Spectrum of the sketch', 'Largest weights']
    """
    figure = plt.figure(figsize=(4.5 * len(_drawings(model)), 3.6), layout="constrained")
    _draw_report(model, figure)
    return figure


def overview(model: Any) -> Figure:
    """Draw what `report` draws and, if there are any, the curves of the 8 most important columns.

    Parameters
    ----------
    model : estimator or OnlineLearner
        What to look at.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sonline import SONClassifier, plots
    >>> model = SONClassifier().fit(*load_breast_cancer(return_X_y=True))
    >>> figure = plots.overview(model)
    >>> len(figure.axes)
    11
    >>> plots.plt.close(figure)
    """
    columns = _columns_of(model, None)[:8]
    if not columns:
        return report(model)
    lines = -(-len(columns) // _ACROSS)
    figure = plt.figure(figsize=(13.5, 3.6 + 2.4 * lines + 0.6), layout="constrained")
    parts: Any = figure.subfigures(2, 1, height_ratios=[3.6, 2.4 * lines + 0.6])
    _draw_report(model, parts[0])
    _draw_curves(model, None, columns, parts[1])
    return figure


def _drawings(model: Any) -> list[Callable[..., Axes]]:
    drawings: list[Callable[..., Axes]] = [spectrum, largest_weights]
    return drawings if _curve_of(model) is None else [loss_curve, *drawings]


def _draw_report(model: Any, figure: Any) -> None:
    drawings = _drawings(model)
    for draw, axis in zip(drawings, figure.subplots(1, len(drawings)), strict=True):
        draw(model, ax=axis)


def curves(model: Any, label: Any = None, *, count: int = 12) -> Figure:
    """Draw the curves of the most important columns, each over the density of its rows.

    All panels have the same vertical axis, so a flat curve is that of a column that does little.
    Values that fewer than 1 % of the rows are beyond are left out. Grey bars show where the rows
    are: one for each piece, one at each end for all rows beyond, and a narrow one for the rows in
    which the column is 0 or missing. Bars that would be more than five times as high as the middle
    one are cut.

    Parameters
    ----------
    model : estimator or OnlineLearner
        What to look at.
    label : optional
        The class. Without it, curves of all classes are drawn if there are up to ten.
    count : int, default=12
        How many columns.

    Examples
    --------
    >>> import numpy as np
    >>> from sonline import SONRegressor, plots
    >>> X = np.random.default_rng(0).normal(size=(2000, 3))
    >>> model = SONRegressor(random_state=0).fit(X, X[:, 0] ** 2 + X[:, 1])
    >>> figure = plots.curves(model)
    >>> [axes.get_title() for axes in figure.axes[:2]]
    ['0', '1']
    >>> plots.plt.close(figure)
    """
    columns = _columns_of(model, label)[:count]
    if not columns:
        raise InvalidInputError(
            f"model: this {type(model).__name__} has no curves: they begin after 32 rows of a "
            "table, with curves='auto' or True; largest_weights draws its weights"
            if label is not None or model.model.outputs <= model.model.CLASSES_SHOWN
            else "label: name the class, there are too many to draw all of them"
        )
    across, down = min(len(columns), _ACROSS), -(-len(columns) // _ACROSS)
    figure = plt.figure(figsize=(1.2 + 2.6 * across, 0.8 + 2.2 * down), layout="constrained")
    _draw_curves(model, label, columns, figure)
    return figure


def _draw_curves(model: Any, label: Any, columns: list[Any], figure: Any) -> None:
    """Draw columns into a figure, or a part of one."""
    across, down = min(len(columns), _ACROSS), -(-len(columns) // _ACROSS)
    low, high = model.model.span(columns)
    edge = 0.06 * (high - low or 1.0)
    bottom = high + edge - (high - low + 2 * edge) / (1 - _ROOM)
    axes = figure.subplots(down, across, sharey=True, squeeze=False).flat
    for number, axis in enumerate(axes):
        if number >= len(columns):
            axis.set_axis_off()
            continue
        feature, found = columns[number]
        _draw_column(feature, found, axis)
        axis.set_ylim(bottom, high + edge)
        axis.yaxis.set_major_locator(_Above(low - edge))
    labels = list(columns[0][1])
    if len(labels) > 1:
        lines = axes[0].get_lines()[1:]
        figure.legend(
            lines, [_short(one) for one in labels], loc="outside right upper", fontsize="small"
        )
    figure.supylabel(f"adds, {model.model.unit(label)}", fontsize="medium")


class _Above(MaxNLocator):
    """Ticks that are not beside the density."""

    def __init__(self, lowest: float) -> None:
        super().__init__(nbins=7, steps=[1, 2, 2.5, 5, 10])
        self._lowest = lowest

    def tick_values(self, vmin: float, vmax: float) -> Any:
        """Return the places of the ticks."""
        ticks = np.asarray(super().tick_values(vmin, vmax))
        return ticks[ticks >= self._lowest]


def _draw_column(feature: Any, found: dict[Any, Any], ax: Axes) -> None:
    """Draw the curves of one column, for all classes, over the density."""
    first = next(iter(found.values()))
    for start, end, height in first.bars():
        ax.axvspan(
            start, end, 0, 0.9 * _ROOM * height, facecolor="0.5", alpha=0.35, edgecolor="none"
        )
    ax.axhline(0, color="0.5", linewidth=0.8, linestyle=":")
    for curve in found.values():
        ax.plot(*curve.line(), linewidth=1.6)
    ax.set_xlim(*first.ends())
    ax.xaxis.set_major_locator(MaxNLocator(nbins=4))
    ax.tick_params(labelsize="small")
    ax.set_title(_short(feature), fontsize="medium")


def _short(name: Any) -> str:
    """Return a name in one line that fits over a panel; dollars are no mathematics."""
    text = str(name) if len(str(name)) <= _NAME else f"{str(name)[: _NAME - 1]}…"
    return text.replace("$", r"\$").replace("\n", " ")


def _columns_of(model: Any, label: Any) -> list[Any]:
    """Return the curves of each column by class; none if there are too many classes."""
    inner = model.model
    if label is None and inner.outputs > inner.CLASSES_SHOWN:
        return []
    columns: list[Any] = inner.column_curves(label)
    return columns


def loss_curve(model: Any, ax: Axes | None = None) -> Axes:
    """Draw the mean loss of the predictions made before each update, over the number of rows.

    Parameters
    ----------
    model : scikit-learn estimator or Curve
        The source of the losses.
    ax : Axes, optional
        Where to draw.

    Examples
    --------
    >>> from sonline import plots
    >>> from sonline.evaluate import Curve
    >>> curve = Curve()
    >>> points = curve.update([0.7, 0.6, 0.5, 0.4])
    >>> plots.loss_curve(curve).get_xlabel()
    'rows'
    """
    curve = _curve_of(model)
    if curve is None:
        raise InvalidInputError(
            f"model: {type(model).__name__} does not keep its progressive loss; a Curve of "
            "sonline.evaluate does"
        )
    ax = plt.gca() if ax is None else ax
    points = list(curve.points)
    if not points or points[-1].rows != curve.rows:
        points.append(curve.now)
    rows = [point.rows for point in points]
    ax.plot(rows, [point.average for point in points], marker="o", markersize=3, label="so far")
    ax.plot(
        rows,
        [point.since_last for point in points],
        linestyle=":",
        label="since the point before",
    )
    ax.set(xscale="log", xlabel="rows", ylabel="mean loss", title="Progressive loss")
    ax.legend()
    return ax


def spectrum(model: Any, ax: Axes | None = None) -> Axes:
    """Draw the eigenvalues of the sketch, one line per class.

    Parameters
    ----------
    model : estimator or OnlineLearner
        What to look at.
    ax : Axes, optional
        Where to draw.

    Examples
    --------
    >>> import numpy as np
    >>> from sonline import OnlineLearner, plots
    >>> learner = OnlineLearner(loss="squared")
    >>> before = learner.learn(np.random.default_rng(0).normal(size=(50, 20)), np.ones(50))
    >>> plots.spectrum(learner).get_ylabel()
    'eigenvalue'
    """
    ax = plt.gca() if ax is None else ax
    lines = [values[values > 0] for values in model.model.spectra()]
    labels = _labels_of(model)
    for number, values in enumerate(lines):
        label = str(labels[number]) if 1 < len(lines) == len(labels) <= 10 else None
        ax.plot(range(1, len(values) + 1), values, marker="o", markersize=3, label=label)
    if any(len(values) for values in lines):
        ax.set_yscale("log")
    ax.set(xlabel="direction", ylabel="eigenvalue", title="Spectrum of the sketch")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    if ax.get_legend_handles_labels()[0]:
        ax.legend(title="class", fontsize="small")
    return ax


def largest_weights(model: Any, count: int = 20, ax: Axes | None = None) -> Axes:
    """Draw the weights of largest size, times the root mean square of their features.

    Parameters
    ----------
    model : estimator or OnlineLearner
        The model. With more than two classes, the largest weights of all classes are drawn.
    count : int, default=20
        How many.
    ax : Axes, optional
        Where to draw.

    Examples
    --------
    >>> from sonline import OnlineLearner, plots
    >>> learner = OnlineLearner()
    >>> for row in {"warm": 4.0, "wet": 0.5}, {"warm": 4.0}, {"warm": 3.0, "wet": 0.25}:
    ...     before = learner.learn_one(row, 1)
    >>> [text.get_text() for text in plots.largest_weights(learner).get_yticklabels()]
    ['warm', 'wet']
    """
    ax = plt.gca() if ax is None else ax
    weights = sorted(_weights_of(model), key=lambda pair: -abs(pair[1]))[:count][::-1]
    names = [name for name, _ in weights]
    sizes = [weight for _, weight in weights]
    ax.barh(range(len(names)), sizes, color=["C0" if size >= 0 else "C3" for size in sizes])
    ax.set_yticks(range(len(names)), names, fontsize="small")
    ax.axvline(0, color="black", linewidth=0.8)
    what = "feature" if len(_labels_of(model)) in (0, 2) else "feature (class)"
    ax.set(xlabel="weight times size of the feature", ylabel=what, title="Largest weights")
    return ax


def _curve_of(model: Any) -> Curve | None:
    if isinstance(model, Curve):
        return model
    inner = getattr(model, "model", None)
    curve: Curve | None = None if inner is None else inner.progress.loss
    return curve if curve is not None and curve.points else None


def _labels_of(model: Any) -> list[Any]:
    """Return the classes of a classifier; nothing for other models."""
    table = model.model.table
    return [] if table is None else table.sorted_labels()


def _weights_of(model: Any) -> list[tuple[str, float]]:
    labels = _labels_of(model)
    if len(labels) in (0, 2):
        return [(str(name), weight) for name, weight in model.weights(scaled=True).items()]
    return [
        (f"{name} ({label})", weight)
        for label in labels
        for name, weight in model.weights(label, scaled=True).items()
    ]
