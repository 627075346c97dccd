"""The page docs/accuracy-curves.md from a run: where curves lose comes first."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from typing import Any

from benchmarks.curves_contenders import ENTRIES

OURS, LINEAR = "sonline, curves", "sonline, curves=False"
BOOSTING, EBM, ADDITIVE = "boosting (scikit-learn)", "EBM", "EBM without pairs"
SAME_BITS = "sonline, curves, `learn_one`"  # as OURS, only slower
FORESTS = ("River ARF", "CapyMOA ARF")
BATCH = [entry.name for entry in ENTRIES if entry.batch]
TIE = 0.01
SMALL = 1e-3  # added to both sides of a ratio: one row more or less of a small set is chance

Result = dict[str, Any]

INTRODUCTION = """\
# Accuracy where relations are not linear

`python -m benchmarks.curves` writes this page; `make accuracy` runs it, too. {streams} tables
({numbers} of numbers, the others of two classes; {ordered} in the order of time or of their file),
up to {rows:,} rows each, with everything at its default (EBM: 1 bag instead of 14, one thread).
Streaming contenders read the first 70 % of the rows once, in their order, and batch learners have
them all at once. Then all of them predict the other 30 %, which is *frozen*. *Progressive* is the
error of predictions made before learning, over the second half of the rows that are learned;
forests for numbers are far off before. *Error* is the share of wrong labels, or the squared error
over the variance of the target. Probabilities are cut at 0.001 and 0.999.

[How curves work](decisions/curves.md), and [how to look at them](guide/curves.md). Their constants
were chosen on the streams marked *dev* ({development} of {streams} here). The others are all of
the report half of {{doc}}`accuracy` with two classes or numbers, 5 to 20 columns and 10,000 rows or
more, but for rare classes."""

FORESTS_HEAD = (
    "| | | at or under, progressive | frozen | its error, progressive | frozen | its time, `learn` "
    "| `learn_one` |"
)
BESIDE_FORESTS = """\
Adaptive random forests (ARF) are the usual choice for curved streams. *At or under*: on how many
tables the error of curves is not larger. *Its error* and *its time* are those of the forest, as a
multiple of curves, in geometric means; time is CPU time for each learned row beside `learn`, and
beside `learn_one`, which takes rows one by one as forests do."""


BESIDE_BATCH = """\
Batch learners see all rows as often as they like. The error of boosting is {ratio:.2f} times that
of curves in the geometric mean; curves have more error on {worse} of {tables} tables, {worst:.1f}
times as much where it is worst. Of the {gaps} tables on which the linear model has 10 % more error
than boosting or more, curves close at least half of the distance on {half}. *Closed* is
that share. Curves are a sum over columns, as EBM without pairs is: the distance from there to EBM
is what pairs of columns do together."""

MEANS = """\
Geometric means of the ratio to *sonline, curves* over the tables that a contender ran on (below 1
is better; a single ratio counts as 16 at most), and medians of the CPU time for each learned row,
through Python, and of the size of the saved model. `learn` takes all rows in one call; `learn_one`
takes mappings one by one, as River does, and makes the same predictions. Forests of CapyMOA run in
Java; SRP cannot be saved."""


def page(run: dict[str, Any]) -> str:
    """Return the page as Markdown."""
    results = run["results"]
    names = [entry.name for entry in ENTRIES if any(entry.name in r["scores"] for r in results)]
    compared = [name for name in names if name != SAME_BITS]
    parts = [
        INTRODUCTION.format(
            streams=len(results),
            numbers=sum(r["kind"] == "regression" for r in results),
            ordered=sum(r.get("group") == "ordered" for r in results),
            rows=run["rows"],
            development=sum(r["half"] == "development" for r in results),
        )
    ]
    if run.get("missing"):
        parts.append(f"Not installed, and missing here: {', '.join(run['missing'])}.")
    if run.get("left out"):
        parts.append(f"Not run here: {', '.join(run['left out'])}.")
    if ours := [r for r in results if r["scores"].get(OURS)]:
        parts += [
            "## Where curves lose",
            losses(ours, [name for name in compared if name not in BATCH]),
            "## Beside forests",
            forests(ours),
            "## Beside batch learners",
            batch(ours),
            "## Means and cost",
            means(ours, names),
        ]
    parts += [
        "## Frozen: error",
        by_stream(results, compared, lambda s: s["frozen"].get("error"), "{:.4f}"),
        "## Frozen: log loss",
        by_stream(results, compared, lambda s: s["frozen"].get("log loss"), "{:.3f}"),
        "## Progressive: error",
        by_stream(
            results,
            [name for name in compared if name not in BATCH],
            lambda s: s["progressive"].get("error"),
            "{:.4f}",
        ),
        "## CPU time, µs a row",
        by_stream(results, names, lambda s: s["micro"], "{:,.1f}"),
    ]
    return "\n\n".join(parts) + "\n"


def losses(results: list[Result], streaming: list[str]) -> str:
    """Return where another contender that streams has less error than curves, worst first."""
    found = []
    for result in results:
        for what in ("frozen", "progressive"):
            scores = {
                name: result["scores"][name][what]["error"]
                for name in streaming
                if result["scores"].get(name)
            }
            best = min(scores, key=lambda name: (name == OURS, scores[name]))
            ratio = (scores[OURS] + SMALL) / (scores[best] + SMALL)
            if ratio > 1 + TIE:
                found.append((ratio, result, what, scores[OURS], best, scores[best]))
    if not found:
        return "No contender that streams has less error than curves on any of these tables."
    lines = ["To the best contender that streams, by more than 1 %, worst first:", ""]
    lines += ["| table | | curves | best | its error | ratio |", "|---|---|---|---|---|---|"]
    for ratio, result, what, ours, best, its in sorted(found, key=lambda one: -one[0]):
        lines.append(
            f"| {_named(result)} | {what} | {ours:.4f} | {best} | {its:.4f} | {ratio:.2f} |"
        )
    return "\n".join(lines)


def forests(results: list[Result]) -> str:
    """Return how often curves are at or under forests, how far, and at which cost."""
    lines = [
        BESIDE_FORESTS,
        "",
        FORESTS_HEAD,
        "|---|---|---|---|---|---|---|---|",
    ]
    unseen = [r for r in results if r["half"] == "report"]
    for name in FORESTS:
        for which, some in (("all", results), ("not *dev*", unseen)):
            ran = [r["scores"] for r in some if r["scores"].get(name)]
            if not ran:
                continue
            wins, means = [], []
            for part in ("progressive", "frozen"):
                pairs = [
                    (scores[OURS][part]["error"], scores[name][part]["error"]) for scores in ran
                ]
                wins.append(f"{sum(ours <= theirs for ours, theirs in pairs)} of {len(pairs)}")
                ratios = [(theirs + SMALL) / (ours + SMALL) for ours, theirs in pairs]
                means.append(f"{_mean(ratios):.2f}")
            times = [
                _middle([s[name]["micro"] / s[way]["micro"] for s in ran if s.get(way)])
                for way in (OURS, SAME_BITS)
            ]
            lines.append(f"| {' | '.join([name, which, *wins, *means, *times])} |")
    return "\n".join(lines)


def batch(results: list[Result]) -> str:
    """Return the distance to batch learners: how much of it curves close, and what is left."""
    lines = ["| table | linear | curves | EBM without pairs | EBM | boosting | closed |"]
    lines.append("|---|---|---|---|---|---|---|")
    closed, left = [], []
    for result in results:
        errors = {
            name: scores["frozen"]["error"] for name, scores in result["scores"].items() if scores
        }
        shown = [errors.get(name) for name in (LINEAR, OURS, ADDITIVE, EBM, BOOSTING)]
        share = "–"
        if None not in (errors.get(BOOSTING), errors.get(LINEAR), errors.get(OURS)):
            left.append((errors[OURS] + SMALL) / (errors[BOOSTING] + SMALL))
            if errors[LINEAR] > 1.1 * errors[BOOSTING]:
                gap = errors[LINEAR] - errors[BOOSTING]
                closed.append((errors[LINEAR] - errors[OURS]) / gap)
                share = f"{closed[-1]:.0%}"
        cells = " | ".join("" if value is None else f"{value:.4f}" for value in shown)
        lines.append(f"| {_named(result)} | {cells} | {share} |")
    if not left:
        return "scikit-learn's boosting did not run."
    text = BESIDE_BATCH.format(
        ratio=1 / _mean(left),
        worse=sum(ratio > 1 + TIE for ratio in left),
        tables=len(left),
        worst=max(left),
        gaps=len(closed),
        half=sum(share >= 0.5 for share in closed),
    )
    return "\n".join([text, "", *lines])


def means(results: list[Result], names: list[str]) -> str:
    """Return geometric means relative to curves, and medians of time and size."""
    lines = [
        MEANS,
        "",
        "| | tables | frozen error | frozen log loss | progressive error | µs a row | size, kB |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in names:
        ran = [r for r in results if r["scores"].get(name)]
        if not ran:
            continue
        cells = [name, str(len(ran))]
        for part, what in (("frozen", "error"), ("frozen", "log loss"), ("progressive", "error")):
            ratios = [
                (theirs + SMALL) / (r["scores"][OURS][part][what] + SMALL)
                for r in ran
                if (theirs := r["scores"][name].get(part, {}).get(what)) is not None
            ]
            cells.append(f"{_mean(ratios):.2f}" if ratios else "")
        scores = [r["scores"][name] for r in ran]
        cells.append(f"{statistics.median(s['micro'] for s in scores):,.1f}")
        sizes = [s["bytes"] for s in scores if s["bytes"]]
        size = statistics.median(sizes) / 1e3 if sizes else None
        cells.append("" if size is None else f"{size:,.0f}" if size >= 10 else f"{size:.1f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def by_stream(
    results: list[Result], names: list[str], value: Callable[[Any], float | None], form: str
) -> str:
    """Return a line for each table, a column for each contender."""
    lines = [f"| table | rows | {' | '.join(names)} |", f"|---|---|{'---|' * len(names)}"]
    for result in results:
        values = [result["scores"].get(name) for name in names]
        numbers = [None if scores is None else value(scores) for scores in values]
        if all(number is None for number in numbers):
            continue
        cells = ["" if number is None else form.format(number) for number in numbers]
        lines.append(f"| {_named(result)} | {result['rows']:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _named(result: Result) -> str:
    return result["stream"] + (" *dev*" if result["half"] == "development" else "")


def _middle(ratios: list[float]) -> str:
    """Return the geometric mean of ratios, whatever their size."""
    return f"{statistics.geometric_mean(ratios):,.0f}" if ratios else ""


def _mean(ratios: list[float]) -> float:
    """Return the geometric mean of ratios, which count as 16 at most, and as 1/16 at least."""
    return math.exp(statistics.fmean(math.log(min(max(r, 1 / 16), 16.0)) for r in ratios))
