"""The page docs/accuracy.md from a run: sonline's losses first."""

# ruff: noqa: ISC004 - optional packages
from __future__ import annotations

import math
from typing import Any

OURS = "sonline"
MODES = ("progressive", "frozen", "late 1", "late 100", "late 1000")
TIE = 0.01  # relative


def page(run: dict[str, Any]) -> str:
    """Return the page as Markdown."""
    results = run["results"]
    names = list(dict.fromkeys(name for r in results for name in r["scores"]))
    peers = [name for name in names if name != OURS]
    lines = [
        "# Accuracy beside the peers",
        "",
        "`make accuracy` wrote this page. Every stream is read once, in its order, its first "
        f"{run['rows']:,} rows at most. *Progressive*: each row is predicted, then its label is "
        "learned. *Frozen*: the model of one half (and of three quarters) of the rows predicts the "
        "next quarter. *Late D*: labels are learned after D more rows. Errors are shares of wrong "
        "labels, or squared errors over the variance of the target. Tuned contenders are the best "
        "of a grid in hindsight; scikit-learn and the classifiers for several classes learn in "
        "blocks of 1 % of the rows.",
        "",
        "Constants of the defaults were chosen on the *development* half of the streams "
        "(by a checksum of the name), not on the *report* half.",
        "",
        *_losses(results, peers),
        *_counts(results, peers),
        *_streams(results, names),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _value(result: dict[str, Any], name: str, mode: str, what: str) -> float | None:
    scores = result["scores"].get(name)
    if scores is None or mode not in scores:
        return None
    value = scores[mode].get(what)
    return None if value is None or not math.isfinite(value) else float(value)


def _beaten(ours: float, theirs: float) -> int:
    """Return -1, 0 or 1: worse, a tie, better."""
    if abs(ours - theirs) <= TIE * max(ours, theirs):
        return 0
    return 1 if ours < theirs else -1


def _losses(results: list[dict[str, Any]], peers: list[str]) -> list[str]:
    untuned = [
        name
        for name in peers
        if "tuned" not in name and "single" not in name and "last" not in name
    ]
    rows = []
    for r in results:
        for mode in ("progressive", "frozen"):
            ours = _value(r, OURS, mode, "error")
            each = [(v, n) for n in untuned if (v := _value(r, n, mode, "error")) is not None]
            if ours is None or not each:
                continue
            best, who = min(each)
            if _beaten(ours, best) < 0:
                rows.append((ours / best if best else math.inf, r, mode, ours, who, best))
    rows.sort(key=lambda row: -row[0])
    table = [
        f"| {r['stream']} | {r['half']} | {mode} | {ours:.4f} | {who} | {best:.4f} |"
        for _, r, mode, ours, who, best in rows
    ]
    return [
        "## Where sonline loses",
        "",
        "To the best untuned contender, by more than 1 % of the error, worst first:",
        "",
        "| stream | half | | sonline | best | its error |",
        "|---|---|---|---|---|---|",
        *table,
        "",
    ]


def _counts(results: list[dict[str, Any]], peers: list[str]) -> list[str]:
    lines = [
        "## Wins, ties and losses",
        "",
        "Streams on which sonline is better / within 1 % / worse, on the report half and on all.",
        "",
        "| | error, progressive | error, frozen | log loss, frozen | calibration, frozen |",
        "|---|---|---|---|---|",
    ]
    for name in peers:
        cells = []
        for mode, what in (
            ("progressive", "error"),
            ("frozen", "error"),
            ("frozen", "log loss"),
            ("frozen", "ece"),
        ):
            texts = []
            for half in ("report", None):
                count = {1: 0, 0: 0, -1: 0}
                for r in results:
                    if half not in (None, r["half"]):
                        continue
                    ours, theirs = _value(r, OURS, mode, what), _value(r, name, mode, what)
                    if ours is not None and theirs is not None:
                        count[_beaten(ours, theirs)] += 1
                texts.append(f"{count[1]}/{count[0]}/{count[-1]}")
            cells.append(", ".join(texts))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return [*lines, ""]


def _streams(results: list[dict[str, Any]], names: list[str]) -> list[str]:
    lines = ["## All streams", ""]
    for kind in ("binary", "multiclass", "regression"):
        there = [r for r in results if r["kind"] == kind]
        own = [name for name in names if any(name in r["scores"] for r in there)]
        if not there:
            continue
        what = "Squared error / variance" if kind == "regression" else "Error"
        lines += [f"### {kind.capitalize()}", "", f"{what}, progressive / frozen.", ""]
        lines += [f"| stream | rows | {' | '.join(own)} |", "|---|---|" + "---|" * len(own)]
        for r in sorted(there, key=lambda r: (r["group"], r["stream"])):
            cells = []
            for name in own:
                pair = [_value(r, name, mode, "error") for mode in ("progressive", "frozen")]
                cells.append("" if None in pair else " / ".join(_short(v) for v in pair))
            lines.append(f"| {r['stream']} | {r['rows']:,} | {' | '.join(cells)} |")
        lines.append("")
    late = [r for r in results if r["group"] == "ordered"]
    lines += ["### Late labels", "", "Errors of ordered streams, labels late by 1, 100, 1,000.", ""]
    own = [n for n in names if any(_value(r, n, "late 1", "error") is not None for r in late)]
    lines += [f"| stream | {' | '.join(own)} |", "|---|" + "---|" * len(own)]
    for r in late:
        cells = []
        for name in own:
            found = [_value(r, name, mode, "error") for mode in MODES[2:]]
            cells.append(" / ".join(_short(v) for v in found if v is not None))
        lines.append(f"| {r['stream']} | {' | '.join(cells)} |")
    return lines


def _short(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.4f}" if value < 100 else f"{value:.3g}"
