"""Curves as they are shown: for pictures in notebooks, and for the page of the service."""

from __future__ import annotations

import html
from typing import Any

import numpy as np

from sonline.model.curves import Curve
from sonline.model.model import Model

_COLUMNS = 6
_WIDTH, _HEIGHT, _TOP, _BOTTOM = 176, 128, 20, 18
_COLOURS = ("#2a7de1", "#e0751c", "#2f9e57", "#a05ad0", "#c9a100", "#d6457f", "#1ba8b5", "#8a8f98")


def as_svg(model: Model) -> str:
    """Return pictures of the most important curves as SVG, for light and dark pages."""
    columns = model.column_curves()[:_COLUMNS] if model.outputs <= model.CLASSES_SHOWN else []
    if not columns:
        return ""
    low, high = model.span(columns)
    panels = []
    for number, (feature, curves) in enumerate(columns):
        x, y = number % 3 * (_WIDTH + 12), number // 3 * (_HEIGHT + 6)
        panel = _panel(str(feature), list(curves.values()), low, high)
        panels.append(f"<g transform='translate({x} {y})'>{panel}</g>")
    across, down = min(len(columns), 3), -(-len(columns) // 3)
    width, height = across * (_WIDTH + 12) - 12, down * (_HEIGHT + 6) - 6
    key = ""
    if len(labels := list(columns[0][1])) > 1:
        key = " ".join(
            f"<span style='color:{_COLOURS[i % len(_COLOURS)]}'>{html.escape(str(label))}</span>"
            for i, label in enumerate(labels)
        )
    note = f"curves: {model.unit()}, {low:.2g} to {high:.2g}, over the density of the rows"
    return (
        f"<div style='margin-top:.5em'><svg xmlns='http://www.w3.org/2000/svg' role='img' "
        f"aria-label='curves' viewBox='0 0 {width} {height}' width='{width}' height='{height}' "
        f"style='max-width:100%' fill='currentColor' font-family='sans-serif' font-size='11'>"
        f"{''.join(panels)}</svg><br><small>{html.escape(note)} {key}</small></div>"
    )


def _panel(feature: str, curves: list[Curve], low: float, high: float) -> str:
    """Return one curve, or one for each class, over the density of its column."""
    bars = curves[0].bars()
    knots = curves[0].values[curves[0].shown()]
    start, end = curves[0].ends()
    inner = _HEIGHT - _TOP - _BOTTOM
    tall = (high - low) or 1.0

    def across(value: float) -> float:
        return _WIDTH * (value - start) / ((end - start) or 1.0)

    def down(value: float) -> float:
        return _TOP + 2 + (inner - 4) * (high - value) / tall

    name = feature if len(feature) <= 24 else f"{feature[:23]}…"
    parts = [f"<text x='0' y='12'>{html.escape(name)}</text>"]
    parts += [
        f"<rect x='{across(left):.1f}' y='{_TOP + inner * (1 - 0.4 * height):.1f}' "
        f"width='{max(across(right) - across(left), 0.5):.1f}' height='{0.4 * inner * height:.1f}' "
        "opacity='.16'/>"
        for left, right, height in bars
    ]
    parts.append(
        f"<path d='M0 {down(0.0):.1f}H{_WIDTH}' stroke='currentColor' stroke-dasharray='2 3' "
        "opacity='.5'/>"
    )
    for number, curve in enumerate(curves):
        points = " ".join(
            f"{across(value):.1f},{down(part):.1f}"
            for value, part in zip(*curve.line(), strict=True)
        )
        parts.append(
            f"<polyline points='{points}' fill='none' stroke-width='1.6' "
            f"stroke='{_COLOURS[number % len(_COLOURS)]}'/>"
        )
    parts.append(
        f"<path d='M0 {_HEIGHT - _BOTTOM}H{_WIDTH}' stroke='currentColor' opacity='.5'/>"
        f"<text x='{across(knots[0]):.1f}' y='{_HEIGHT - 5}' opacity='.7'>{_number(knots[0])}"
        f"</text><text x='{across(knots[-1]):.1f}' y='{_HEIGHT - 5}' opacity='.7' "
        f"text-anchor='end'>{_number(knots[-1])}</text>"
    )
    return "".join(parts)


def _number(value: float) -> str:
    """Return a number with four digits.

    Examples
    --------
    >>> _number(71093.04), _number(-0.5), _number(1e-9)
    ('71090', '-0.5', '1e-09')
    """
    if 1e-3 <= abs(value) < 1e7:
        return np.format_float_positional(float(f"{value:.4g}"), trim="-")
    return f"{value:.3g}"


def as_data(model: Model, label: Any = None, count: int | None = None) -> list[dict[str, Any]]:
    """Return the curves as values that JSON can hold, the most important column first."""
    columns = []
    several = label is None and model.outputs > model.CLASSES_SHOWN
    for feature, curves in [] if several else model.column_curves(label)[:count]:
        first = next(iter(curves.values()))
        shown = first.shown()
        columns.append(
            {
                "feature": str(feature),
                "shown": [float(end) for end in first.values[shown][[0, -1]]],
                "bars": first.bars(),
                "rows": first.rows.tolist(),
                "zeros": first.zeros,
                "curves": [
                    {
                        "label": None if one is None else str(one),
                        "values": curve.values.tolist(),
                        "contributions": curve.contributions.tolist(),
                        "importance": curve.importance,
                    }
                    for one, curve in curves.items()
                ],
            }
        )
    return columns
