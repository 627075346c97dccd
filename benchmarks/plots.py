"""Plots of a run: time against the size of the sketch, non-zeros, features and rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks import cost, data
from benchmarks.measure import Result

COLOURS = {
    "none": "#777777",
    "adagrad": "#111111",
    "oja": "#0072b2",
    "isotropic": "#d55e00",
    "fd": "#009e73",
    "rfd": "#cc79a7",
    "vw": "#e69f00",
    "limit": "#56b4e9",
}
Points = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Fit:
    """time = start + slope · x, with least squares of the relative error."""

    what: str
    contender: str
    start: float
    slope: float
    unit: str
    r2: float
    worst: float  # relative distance of the worst point

    @property
    def formula(self) -> str:
        return f"{self.start:.3g} + {self.slope:.3g} · x {self.unit}"


@dataclass(frozen=True)
class Series:
    """One plot against one quantity: x and time from a result."""

    against: str
    label: str
    unit: str
    time: Callable[[Result], float]


def per_row(result: Result) -> float:
    return result.best("cpu") * float(result.about["nonzeros"])


SERIES = {
    "nonzeros": Series("nonzeros", "non-zeros of a row", "ns per row", per_row),
    "rows": Series(
        "rows",
        "rows",
        "ms",
        lambda result: per_row(result) * result.about["rows"] * 1e-6,
    ),
}


def sketch_sizes(results: list[Result]) -> dict[str, Points]:
    """Return time against m of every sketch, Vowpal Wabbit's and the limit, in the main case."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for result in results:
        if result.about.get("against") != "size":
            continue
        about, name = result.about, result.contender
        if about.get("limit"):
            kind, m = "limit: read and write back", about["size"]
        elif name.startswith("vw --OjaNewton"):
            kind, m = "vw --OjaNewton", int(name.split()[-1])
        else:
            kind, m = about["sketch"], about["size"]
        lines.setdefault(kind, []).append((m, result.best("cpu")))
    return {name: columns(points) for name, points in lines.items()}


def series(results: list[Result], against: str) -> dict[str, Points]:
    lines: dict[str, list[tuple[float, float]]] = {}
    for result in results:
        if result.about.get("against") == against and not result.about.get("zipf"):
            x = result.about[against]
            lines.setdefault(result.contender, []).append((x, SERIES[against].time(result)))
    return {name: columns(points) for name, points in lines.items()}


def without_vw(lines: dict[str, Points]) -> dict[str, Points]:
    """Leave out Vowpal Wabbit, beside which the other lines would lie on the axis."""
    return {name: points for name, points in lines.items() if not name.startswith("vw")}


def columns(points: list[tuple[float, float]]) -> Points:
    x, time = zip(*sorted(points), strict=True)
    return np.array(x, dtype=float), np.array(time)


def fits(results: list[Result]) -> list[Fit]:
    found = []
    lines = {"m": (sketch_sizes(results), "ns per non-zero")}
    lines |= {s.label: (series(results, against), s.unit) for against, s in SERIES.items()}
    for what, (of_what, unit) in lines.items():
        for name, (x, time) in of_what.items():
            if len(x) > 2:
                found.append(fit(what, name, x, time, unit))
    return found


def fit(what: str, name: str, x: np.ndarray, time: np.ndarray, unit: str) -> Fit:
    design = np.stack([np.ones_like(x), x], axis=1) / time[:, None]
    start, slope = np.linalg.lstsq(design, np.ones_like(x), rcond=None)[0]
    predicted = start + slope * x
    r2 = 1 - np.sum((time - predicted) ** 2) / np.sum((time - time.mean()) ** 2)
    worst = np.max(np.abs(predicted / time - 1))
    return Fit(what, name, float(start), float(slope), unit, float(r2), float(worst))


def draw(results: list[Result], folder: Path) -> dict[str, str]:
    """Draw the plots for which there are results; return the titles by file name."""
    drawn = {}
    if sizes := sketch_sizes(results):
        figure, axes = new_figure("m, size of the sketch", "ns per non-zero")
        plot_lines(axes, sizes, straight=False)
        axes.set_yscale("log")
        drawn[save(figure, folder, "against-m.png")] = f"Time against m: {data.MAIN.name}"
        figure, axes = new_figure("m, size of the sketch", "ns per non-zero")
        plot_lines(axes, without_vw(sizes), straight=True)
        title = "The same without Vowpal Wabbit, with the fitted lines"
        drawn[save(figure, folder, "against-m-linear.png")] = title
    for against, one in SERIES.items():
        if lines := series(results, against):
            figure, axes = new_figure(one.label, one.unit)
            plot_lines(axes, without_vw(lines), straight=True)
            title = f"Time against {one.label}, with the fitted straight lines (dashed)"
            drawn[save(figure, folder, f"against-{against}.png")] = title
    if lines := against_features(results):
        figure, axes = new_figure("features, all seen before", "ns per non-zero")
        plot_lines(axes, lines, straight=False)
        axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        drawn[save(figure, folder, "against-features.png")] = "Time against features"
    if grid := [result for result in results if result.section == cost.SECTION]:
        drawn[save(cost_figure(grid), folder, "cost.png")] = (
            "Cost per non-zero: sketch size, non-zeros and features"
        )
    return drawn


def against_features(results: list[Result]) -> dict[str, Points]:
    lines: dict[str, list[tuple[float, float]]] = {}
    for result in results:
        if result.about.get("against") == "features":
            name = result.contender + (", Zipf" if result.about["zipf"] else "")
            lines.setdefault(name, []).append((result.about["features"], result.best("cpu")))
    return {name: columns(points) for name, points in lines.items()}


def new_figure(x: str, y: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axes = figure.subplots()
    axes.set_xlabel(x)
    axes.set_ylabel(f"{y}, processor time, best")
    axes.grid(color="#dddddd")
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def plot_lines(axes: Axes, lines: dict[str, Points], *, straight: bool) -> None:
    for name, (x, time) in lines.items():
        colour = next((c for key, c in COLOURS.items() if name.startswith(key)), "#000000")
        style = ":" if name.endswith("Zipf") else "none" if straight else "-"
        axes.plot(x, time, linestyle=style, marker="o", markersize=4, color=colour, label=name)
        if straight and len(x) > 2:
            line = fit("", name, x, time, "")
            axes.plot(x, line.start + line.slope * x, "--", linewidth=1, color=colour)
    axes.legend(fontsize=8, frameon=False)


def cost_figure(results: list[Result]) -> Figure:
    """Draw ns per non-zero against features, a panel for each number of non-zeros and sketch."""
    sketches = [s for s in ("oja", "isotropic") if any(r.about["sketch"] == s for r in results)]
    counts = sorted({result.about["nonzeros"] for result in results})
    sizes = sorted({result.about["size"] for result in results})
    figure = Figure(figsize=(3.4 * len(counts), 3.0 * len(sketches)), layout="constrained")
    panels = figure.subplots(len(sketches), len(counts), sharex=True, sharey=True, squeeze=False)
    shades = dict(zip(sizes, np.linspace(0.75, 0.0, len(sizes)), strict=True))
    for line, sketch in zip(panels, sketches, strict=True):
        for panel, count in zip(line, counts, strict=True):
            for name in dict.fromkeys(result.contender for result in results):
                points = [
                    r for r in results if r.contender == name and r.about["nonzeros"] == count
                ]
                about = points[0].about
                x, time = columns([(r.about["features"], r.best("cpu")) for r in points])
                if about["sketch"] == "adagrad":
                    panel.plot(x, time, "--", color="#d55e00", label="AdaGrad")
                elif about["sketch"] in (sketch, "none"):
                    grey = str(shades[about["size"]])
                    panel.plot(x, time, color=grey, marker="o", label=f"m = {about['size']}")
            panel.set_xscale("log")
            panel.set_yscale("log")
            panel.grid(color="#dddddd")
            panel.spines[["top", "right"]].set_visible(False)
            panel.set_title(f"{sketch}, {count} non-zeros a row", fontsize=10)
        line[0].set_ylabel("ns per non-zero")
    for panel in panels[-1]:
        panel.set_xlabel("features")
    panels[0][-1].legend(fontsize=8)
    return figure


def save(figure: Figure, folder: Path, name: str) -> str:
    figure.savefig(folder / name, dpi=130)
    return name
