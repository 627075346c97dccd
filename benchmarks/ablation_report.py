"""The tables of `make ablation`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

PROTOCOLS = ("progressive", "frozen", "late 100", "late 1000")
SCORES = ("error", "log loss")
MORE_ERRORS = 5  # added to those of classes, so that streams with almost none do not decide
# Log ratios to the default: by score, kind and stream, those of the protocols.
Ratios = dict[str, dict[str, dict[str, dict[str, float]]]]


def tables(run: dict[str, Any]) -> str:
    """Return the summary, the changes by kind of stream, and those by protocol, worst first."""
    default = run["removals"]["default"]
    removals = []
    for name, entry in run["removals"].items():
        if name != "default":
            ratios = ratios_of(run, default["scores"], entry["scores"])
            removals.append((largest(ratios), name, entry, ratios))
    removals.sort(key=lambda removal: -removal[0][0])
    kinds = sorted(set(run["kinds"].values()))
    counts = {kind: list(run["kinds"].values()).count(kind) for kind in kinds}
    columns = (
        "without", "instead", "most lost by a kind", "most lost in one protocol",
        "most gained by a kind", "worst stream", "instructions dense, wide",
    )  # fmt: skip
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for top, name, entry, ratios in removals:
        lines.append(
            f"| {name} | {entry['instead']} | {said(top)} | "
            f"{said(largest_of_protocol(ratios))} | {said(largest(ratios, -1))} | "
            f"{worst_stream(ratios)}{failures(entry['scores'])} | {cost(entry, default)} |"
        )
    lines += ["", "Error / log loss by kind of stream, in per cent:", ""]
    header = " | ".join(f"{kind} ({counts[kind]})" for kind in kinds)
    lines += [f"| without | {header} |", "|---|" + "---|" * len(kinds)]
    for _, name, _, ratios in removals:
        cells = " | ".join(
            both(*(mean_of_kind(ratios[score].get(kind, {})) for score in SCORES)) for kind in kinds
        )
        lines.append(f"| {name} | {cells} |")
    lines += ["", "The same by protocol, over all kinds:", ""]
    lines += [f"| without | {' | '.join(PROTOCOLS)} |", "|---|" + "---|" * len(PROTOCOLS)]
    for _, name, _, ratios in removals:
        cells = " | ".join(
            both(*(mean_of_protocol(ratios[score], protocol) for score in SCORES))
            for protocol in PROTOCOLS
        )
        lines.append(f"| {name} | {cells} |")
    return "\n".join(lines) + "\n"


def ratios_of(run: dict[str, Any], default: dict[str, Any], without: dict[str, Any]) -> Ratios:
    """Return the logarithms of scores without a mechanism over those of the default."""
    ratios: Ratios = {score: {} for score in SCORES}
    for stream, kind in run["kinds"].items():
        for protocol in PROTOCOLS:
            before, after = default[stream].get(protocol), without[stream].get(protocol)
            if before is None or after is None:
                continue
            for score in set(SCORES) & set(before):
                more = MORE_ERRORS / run["rows"][stream] if "log loss" in before else 0.0
                ratio = math.log((after[score] + more) / (before[score] + more))
                of_kind = ratios[score].setdefault(kind, {})
                of_kind.setdefault(stream, {})[protocol] = ratio
    return ratios


def mean_of_stream(of_stream: dict[str, float]) -> float:
    return float(np.mean(list(of_stream.values())))


def mean_of_kind(streams: dict[str, dict[str, float]]) -> float | None:
    return float(np.mean([mean_of_stream(s) for s in streams.values()])) if streams else None


def mean_of_protocol(kinds: dict[str, dict[str, dict[str, float]]], protocol: str) -> float | None:
    """Return the mean over kinds, each of which counts the same."""
    means = []
    for streams in kinds.values():
        values = [s[protocol] for s in streams.values() if protocol in s]
        if values:
            means.append(np.mean(values))
    return float(np.mean(means)) if means else None


def _changes(ratios: Ratios) -> Iterator[tuple[float, float, str]]:
    for score, kinds in ratios.items():
        for kind, streams in kinds.items():
            values = [mean_of_stream(s) for s in streams.values()]
            yield (*_mean_and_deviation(values), f"{score}, {kind}")


def largest(ratios: Ratios, sign: int = 1) -> tuple[float, float, str]:
    """Return the largest change of a kind of stream, its standard error, and what it is."""
    return max(_changes(ratios), key=lambda change: sign * change[0])


def largest_of_protocol(ratios: Ratios) -> tuple[float, float, str]:
    changes = []
    for score, kinds in ratios.items():
        for kind, streams in kinds.items():
            for protocol in PROTOCOLS:
                values = [s[protocol] for s in streams.values() if protocol in s]
                if values:
                    what = f"{score}, {kind}, {protocol}"
                    changes.append((*_mean_and_deviation(values), what))
    return max(changes)


def _mean_and_deviation(values: list[float]) -> tuple[float, float]:
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
    return float(np.mean(values)), deviation / math.sqrt(len(values))


def worst_stream(ratios: Ratios) -> str:
    changes = [
        (mean_of_stream(of_stream), f"{stream} ({score})")
        for score, kinds in ratios.items()
        for streams in kinds.values()
        for stream, of_stream in streams.items()
    ]
    change, what = max(changes)
    return f"{percent(change)} {what}"


def failures(scores: dict[str, Any]) -> str:
    failed = sum("failed" in of_stream for of_stream in scores.values())
    return f"; {failed} fail" if failed else ""


def cost(entry: dict[str, Any], default: dict[str, Any]) -> str:
    if "instructions" not in entry:
        return "–"
    return ", ".join(
        percent(math.log(number / default["instructions"][shape]))
        for shape, number in entry["instructions"].items()
    )


def percent(change: float | None) -> str:
    if change is None:
        return "–"
    ratio = 100 * math.expm1(change)
    return "0" if abs(ratio) < 0.005 else f"{ratio:+.1f}" if abs(ratio) >= 1 else f"{ratio:+.2f}"


def both(error: float | None, log_loss: float | None) -> str:
    return percent(error) if log_loss is None else f"{percent(error)} / {percent(log_loss)}"


def said(change: tuple[float, float, str]) -> str:
    mean, deviation, what = change
    spread = "" if math.isnan(deviation) else f" ± {100 * deviation:.2g}"
    return f"{percent(mean)}{spread} {what}"
