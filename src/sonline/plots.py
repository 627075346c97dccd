"""Plots of a model: its progress, its sketch, its weights. Needs matplotlib.

Every function takes an estimator of scikit-learn or River, or an `OnlineLearner`, and the axes to
draw on (default: the current axes).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sonline.errors import InvalidInputError, require
from sonline.evaluate import Curve

require("matplotlib", "plot")

import matplotlib.pyplot as plt  # noqa: E402 - says what is missing first
from matplotlib.ticker import MaxNLocator  # noqa: E402

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["largest_weights", "loss_curve", "report", "spectrum"]


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
    drawings: list[Callable[..., Axes]] = [spectrum, largest_weights]
    if _curve_of(model) is not None:
        drawings.insert(0, loss_curve)
    figure, axes = plt.subplots(
        1, len(drawings), figsize=(4.5 * len(drawings), 3.6), layout="constrained"
    )
    for draw, axis in zip(drawings, axes, strict=True):
        draw(model, ax=axis)
    return figure


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
    ['wet', 'warm']
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
