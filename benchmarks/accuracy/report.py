"""The page docs/accuracy.md from a run: sonline's losses first."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

OURS = "sonline"
DELAYS = ("late 1", "late 100", "late 1000")
TIE = 0.01  # relative
LIMIT = 16.0  # of ratios in means and in the picture: some contenders diverge
SMALL = 1e-3  # added to both sides of a ratio: one row more or less of a small set is chance

Result = dict[str, Any]

INTRODUCTION = """\
# Accuracy compared with other libraries

`make accuracy` writes this page. Each stream is read once, in its order, up to {rows:,} rows.
Nothing is tuned unless the name says so. A tuned contender is the best of a grid in hindsight,
which you cannot know before the stream ends.

- **Progressive**: each row is predicted, then learned.
- **Frozen**: the model of one half (and of three quarters) of the rows predicts the next quarter.
- **Late D**: the label of a row is learned after D more rows have been predicted.
- **Error** is the share of wrong labels, or the squared error over the variance of the target;
  **log loss** that of the probabilities; **ECE** the calibration error in 15 bins of equal size.

SGD and River are trained on standardised rows, as their documentation advises, VW and sonline on
the raw rows. SGD, and sonline with more than two classes, learn in blocks of 2 % of the rows.
Rows are sparse matrices, for which sonline has no curves; {{doc}}`accuracy-curves` is about tables.
*Majority or mean* and *last label* use no features.

The constants of the default were chosen on one half of the streams (by a checksum of the name):
{development}.
Streams of that half are marked *dev*; nothing was chosen on the others ({report} of the {streams}
below)."""


MEANS = """\
Geometric means over the streams that a contender ran on, relative to sonline (below 1 is better
than sonline; a single ratio counts as 16 at most). Time is the median CPU time per learned or
predicted row through the Python interface. For VW it includes writing the lines of text, for
scikit-learn the calls for small blocks. {doc}`benchmarks` measures speed."""


def page(run: dict[str, Any]) -> str:
    """Return the page as Markdown."""
    results = run["results"]
    names = list(dict.fromkeys(name for r in results for name in r["scores"]))
    peers = [name for name in names if name != OURS]
    development = [r for r in results if r["half"] == "development"]
    introduction = INTRODUCTION.format(
        rows=run["rows"],
        development=", ".join(run["chosen on"]),
        streams=len(results),
        report=len(results) - len(development),
    )
    parts = [
        [introduction],
        [run["note"]] if "note" in run else [],
        _losses(results, peers),
        ["![Errors of the peers relative to sonline](_static/accuracy.png)"],
        _counts(results, peers),
        _means(results, names),
        *(_table(results, names, kind) for kind in ("binary", "multiclass", "regression")),
        _late(results, names),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _value(result: Result, name: str, mode: str, measure: str) -> float | None:
    scores = result["scores"].get(name)
    value = None if scores is None or mode not in scores else scores[mode].get(measure)
    return None if value is None or not math.isfinite(value) else float(value)


def _compare(ours: float, theirs: float) -> int:
    """Return -1, 0 or 1: worse, a tie, better."""
    if abs(ours - theirs) <= TIE * max(ours, theirs):
        return 0
    return 1 if ours < theirs else -1


def _label(result: Result) -> str:
    return result["stream"] + (" *dev*" if result["half"] == "development" else "")


def _rows(head: Iterable[str], body: Iterable[Iterable[str]]) -> list[str]:
    head = list(head)
    lines = [head, ["---"] * len(head), *body]
    return ["| " + " | ".join(line) + " |" for line in lines]


def _losses(results: list[Result], peers: list[str]) -> list[str]:
    untuned = [n for n in peers if not any(part in n for part in ("tuned", "single", "last"))]
    rows = []
    for r in results:
        for mode in ("progressive", "frozen"):
            ours = _value(r, OURS, mode, "error")
            each = [(v, n) for n in untuned if (v := _value(r, n, mode, "error")) is not None]
            if ours is None or not each:
                continue
            best, who = min(each)
            if _compare(ours, best) < 0:
                rows.append(((ours + SMALL) / (best + SMALL), r, mode, ours, who, best))
    rows.sort(key=lambda row: -row[0])
    body = [
        [_label(r), f"{r['rows']:,}", mode, _short(ours), who, _short(best), f"{ratio:.2f}"]
        for ratio, r, mode, ours, who, best in rows
    ]
    return [
        "## Where sonline loses",
        "",
        "To the best untuned contender, by more than 1 % of the error, worst first:",
        "",
        *_rows(("stream", "rows", "", "sonline", "best", "its error", "ratio"), body),
    ]


def _counts(results: list[Result], peers: list[str]) -> list[str]:
    columns = [
        ("progressive", "error"),
        ("frozen", "error"),
        ("frozen", "log loss"),
        ("frozen", "ece"),
    ]

    def cell(name: str, mode: str, measure: str, half: str | None) -> str:
        count = {1: 0, 0: 0, -1: 0}
        for r in results:
            ours, theirs = _value(r, OURS, mode, measure), _value(r, name, mode, measure)
            if half in (None, r["half"]) and ours is not None and theirs is not None:
                count[_compare(ours, theirs)] += 1
        return f"{count[1]}/{count[0]}/{count[-1]}"

    halves = ("report", None) if any(r["half"] != "report" for r in results) else ("report",)
    body = [
        [name, *(", ".join(cell(name, *column, half) for half in halves) for column in columns)]
        for name in peers
    ]
    head = ("", *(f"{measure.replace('ece', 'ECE')}, {mode}" for mode, measure in columns))
    return [
        "## Wins, ties and losses",
        "",
        "Streams on which sonline is better / within 1 % / worse"
        + (": on the report half, and on all." if len(halves) > 1 else "."),
        "",
        *_rows(head, body),
    ]


def _means(results: list[Result], names: list[str]) -> list[str]:
    """Geometric means of ratios to sonline, and time."""
    body = []
    for name in names:
        cells = []
        for mode, measure in (
            ("progressive", "error"),
            ("frozen", "error"),
            ("frozen", "log loss"),
        ):
            logs = []
            for r in results:
                ours, theirs = _value(r, OURS, mode, measure), _value(r, name, mode, measure)
                if ours is not None and theirs is not None:
                    ratio = (theirs + SMALL) / (ours + SMALL)
                    logs.append(math.log(min(max(ratio, 1 / LIMIT), LIMIT)))
            cells.append(f"{math.exp(sum(logs) / len(logs)):.2f}" if logs else "")
        errors = sorted(v for r in results if (v := _value(r, name, "frozen", "ece")) is not None)
        cells.append(f"{errors[len(errors) // 2]:.3f}" if errors else "")
        times = sorted(
            r["scores"][name]["seconds"] / (1.5 * r["rows"])
            for r in results
            if r["scores"].get(name) is not None
        )
        cells.append(f"{1e6 * times[len(times) // 2]:.0f}" if times else "")
        body.append([name, *cells])
    head = ("", "error, progressive", "error, frozen", "log loss, frozen", "median ECE", "µs a row")
    return [
        "## Means",
        "",
        MEANS,
        "",
        *_rows(head, body),
    ]


def _table(results: list[Result], names: list[str], kind: str) -> list[str]:
    there = [r for r in results if r["kind"] == kind]
    shown = [name for name in names if any(r["scores"].get(name) for r in there)]
    if not there:
        return []
    measure = "Squared error / variance" if kind == "regression" else "Error"

    def cell(r: Result, name: str, measure: str) -> str:
        pair = [_value(r, name, mode, measure) for mode in ("progressive", "frozen")]
        return "" if None in pair else " / ".join(_short(v) for v in pair)

    there.sort(key=lambda r: (r["group"], r["stream"]))
    lines = [f"## {kind.capitalize()}", "", f"{measure}, progressive / frozen.", ""]
    lines += _rows(
        ("stream", "rows", *shown),
        ([_label(r), f"{r['rows']:,}", *(cell(r, n, "error") for n in shown)] for r in there),
    )
    if kind != "regression":
        some = [n for n in shown if n in (OURS, "VW", "SGD, scaled", "River, scaled")]
        lines += ["", "Log loss, progressive / frozen; ECE of the frozen model.", ""]
        lines += _rows(
            ("stream", *some, *(f"ECE {n}" for n in some)),
            (
                [_label(r), *(cell(r, n, "log loss") for n in some)]
                + [_short(_value(r, n, "frozen", "ece")) for n in some]
                for r in there
            ),
        )
    return lines


def _late(results: list[Result], names: list[str]) -> list[str]:
    late = [r for r in results if r["group"] == "ordered"]
    shown = [n for n in names if any(_value(r, n, DELAYS[0], "error") is not None for r in late)]
    if not shown:
        return []

    def cell(r: Result, name: str) -> str:
        values = [_value(r, name, mode, "error") for mode in DELAYS]
        return " / ".join(_short(v) for v in values if v is not None)

    return [
        "## Late labels",
        "",
        "Errors on streams in their own order, labels late by 1 / 100 / 1,000 rows.",
        "",
        *_rows(("stream", *shown), ([_label(r), *(cell(r, n) for n in shown)] for r in late)),
    ]


def _short(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.4f}" if value < 100 else f"{value:.3g}"


def picture(run: dict[str, Any], path: Path) -> None:
    """Draw the frozen error of each untuned peer relative to sonline's, a dot a stream."""
    import matplotlib  # noqa: ICN001, PLC0415 - only here

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    colours = {"binary": "tab:blue", "multiclass": "tab:orange", "regression": "tab:green"}
    peers = ["majority or mean", "SGD, scaled", "River, scaled", "VW", "VW OjaNewton", "VW coin"]
    fig, ax = plt.subplots(figsize=(8, 3.6), layout="constrained")
    for height, name in enumerate(reversed(peers)):
        for number, r in enumerate(run["results"]):
            ours, theirs = _value(r, OURS, "frozen", "error"), _value(r, name, "frozen", "error")
            if ours is None or theirs is None:
                continue
            ratio = min(max((theirs + SMALL) / (ours + SMALL), 1 / LIMIT), LIMIT)
            y = height + (number % 7 - 3) * 0.08
            ax.plot(ratio, y, "o", color=colours[r["kind"]], markersize=4, alpha=0.6)
    for kind, colour in colours.items():
        ax.plot([], [], "o", color=colour, label=kind)
    ax.axvline(1, color="gray", linewidth=1)
    ticks = [1 / 4, 1 / 2, 1, 2, 4, 8, 16]
    ax.set_xscale("log", base=2)
    ax.set_xticks(ticks, ["¼", "½", "1", "2", "4", "8", "≥ 16"])
    ax.set_yticks(range(len(peers)), reversed(peers))
    ax.set_xlabel("error of the frozen model / sonline's (right of 1: sonline is better)")
    fig.legend(loc="outside upper center", ncols=3, frameon=False)
    fig.savefig(path, dpi=130)
    plt.close(fig)
