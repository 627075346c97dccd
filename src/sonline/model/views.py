"""A trained model at a glance: for `repr`, and for notebooks."""

from __future__ import annotations

import html
from typing import Any

import numpy as np

from sonline.model.model import Model
from sonline.model.pictures import as_svg
from sonline.parameters import Parameters

LARGEST = 5  # weights that are shown
MOST_FEATURES = 100_000  # of a model whose weights are looked at: `repr` must not take long


def at_a_glance(model: Model) -> dict[str, str]:
    """Return rows, features, progressive figures and the largest weights; nothing if untrained.

    Weights are those of features divided by their root mean square, which can be compared.

    Examples
    --------
    >>> from sonline import OnlineLearner
    >>> learner = OnlineLearner()
    >>> at_a_glance(learner.model)
    {}
    >>> _ = learner.learn([{"a": 1.0}], [1])
    >>> at_a_glance(learner.model)["rows"]
    '1'
    """
    stats = model.stats()
    if not stats["rounds"]:
        return {}
    facts = {"rows": f"{stats['rounds']:,}", "features": f"{stats['features'] - 1:,}"}
    if model.table is not None and len(model.table) > 2:
        facts["classes"] = f"{len(model.table):,}"
    progress = model.progress
    if progress.loss.weight > 0:
        facts["progressive loss"] = f"{progress.loss.average:.4g}"
    if progress.error.weight > 0:
        facts["progressive error"] = f"{progress.error.average:.4g}"
    elif progress.loss.weight > 0 and model.table is None:
        facts["progressive R²"] = f"{progress.r2.value:.4g}"
    if 1 < stats["features"] <= MOST_FEATURES and model.outputs:
        facts["largest weights"] = _largest(model)
    return facts


def _largest(model: Model) -> str:
    """Return the features with the largest scaled weights of any class, and these."""
    weights = model.in_order(model.weights(scaled=True)[:, 1:])
    features = model.features()[: weights.shape[1]]  # another thread may have added some
    largest = np.abs(weights).max(axis=0)[: len(features)]
    parts = []
    for column in np.argsort(-largest, kind="stable")[:LARGEST].tolist():
        line = int(np.abs(weights[:, column]).argmax())
        whose = ""
        if model.table is not None and len(weights) > 1:
            whose = f" ({model.table.sorted_labels()[line]})"
        parts.append(f"{str(features[column])[:40]}: {weights[line, column]:.3g}{whose}")
    return ", ".join(parts) + (", ..." if len(features) > LARGEST else "")


def as_text(name: str, model: Model) -> str:
    """Return the name of a learner, with what it has learned."""
    facts = at_a_glance(model)
    if not facts:
        return name
    counts = [f"{facts.pop(key)} {key}" for key in ("rows", "features", "classes") if key in facts]
    return f"<{name}: {', '.join([*counts, *(f'{k} {v}' for k, v in facts.items())])}>"


def as_html(name: str, model: Model) -> str:
    """Return the same as a table, with the most important curves."""
    facts = at_a_glance(model)
    rows = "".join(
        f"<tr><th style='text-align:left'>{html.escape(key)}</th>"
        f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
        for key, value in facts.items()
    )
    curves = as_svg(model) if "largest weights" in facts else ""
    return f"<div><code>{html.escape(name)}</code><table>{rows}</table>{curves}</div>"


class LearnerView:
    """How an `OnlineLearner` is shown."""

    _model: Model

    def _name(self) -> str:
        default = Parameters().as_dict()
        parameters = self._model.parameters.as_dict()
        changed = [f"{k}={v!r}" for k, v in parameters.items() if v != default[k]]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __repr__(self) -> str:
        return as_text(self._name(), self._model)

    def _repr_html_(self) -> str:
        return as_html(self._name(), self._model)


class EstimatorView:
    """How an estimator for scikit-learn is shown in a notebook; `repr` is scikit-learn's."""

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)  # type: ignore[misc]  # of scikit-learn
        if model := vars(self).get("_model"):
            bundle["text/plain"] = as_text(bundle["text/plain"], model)
            if "text/html" in bundle:
                bundle["text/html"] += as_html("", model)
        return bundle
