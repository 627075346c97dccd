"""A run as Markdown: machine, targets, tables with ratios to each peer, fits and plots."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks import plots, targets
from benchmarks.measure import Result

CLOCKS = {"cpu": "processor time", "wall": "wall"}


def write(run: dict[str, Any], folder: Path) -> None:
    """Write run.json, report.markdown and the plots."""
    results = [Result(**result) for result in run["results"]]
    (folder / "run.json").write_text(compact(run), encoding="utf-8")
    drawn = plots.draw(results, folder)
    document = "\n".join(markdown(run, results, drawn))
    (folder / "report.markdown").write_text(document, encoding="utf-8")
    print("\n".join(target_table(results)))
    print("\n".join(fit_table(results)))
    print(f"written: {folder / 'run.json'}, {folder / 'report.markdown'}, {len(drawn)} plots")


def compact(run: dict[str, Any]) -> str:
    """Return JSON with one result a line."""
    head = json.dumps({**run, "results": []}, indent=1, ensure_ascii=False)
    lines = ",\n".join("  " + json.dumps(result, ensure_ascii=False) for result in run["results"])
    return head.replace('"results": []', f'"results": [\n{lines}\n ]') + "\n"


def line(result: Result) -> str:
    kind = kinds(result)[0]
    return (
        f"{result.section}: {result.case}: {result.contender}: {number(result.best(kind))} "
        f"{result.unit} (median {number(result.median(kind))})"
    )


def kinds(result: Result) -> list[str]:
    """Return the kinds of numbers, the one that is compared first: the wall on several cores."""
    names = list(result.values)
    return names[::-1] if result.about.get("cores", 1) > 1 else names


def number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value < 10 else f"{value:.1f}"


def table(head: list[str], rows: list[list[str]], left: int = 1) -> list[str]:
    rule = ["---"] * left + ["---:"] * (len(head) - left)
    return [f"| {' | '.join(cells)} |" for cells in (head, rule, *rows)] + [""]


def markdown(run: dict[str, Any], results: list[Result], drawn: dict[str, str]) -> list[str]:
    lines = ["## The machine and the versions", ""]
    facts = {**run["machine"], "load at end": run.get("load at end", "")}
    facts["rounds"] = f"{run['rounds']}, in {run.get('seconds', 0) / 60:.0f} minutes"
    for name, value in {**facts, **run["versions"]}.items():
        words = ", ".join(map(str, value)) if isinstance(value, list) else value
        lines.append(f"- {name}: {words}")
    if run["quick"]:
        lines += ["", "**A quick look: small sizes, two rounds. Not to be quoted.**"]
    wrong = [f"{result.case}: {result.contender}" for result in results if result.impossible]
    lines.append(f"- results with more processor time than elapsed time, on one core: {len(wrong)}")
    lines += [f"  - {name}" for name in wrong]
    lines += ["", "## The targets", "", *target_table(results)]
    lines += ["## Straight lines", "", *fit_table(results)]
    for file, title in drawn.items():
        lines += [f"![{title}]({file})", ""]
    lines += ["## All cases", ""]
    shown = [result for result in results if "against" not in result.about]
    for section, of_section in groupby(shown, key=lambda result: result.section):
        lines += [f"### {section[0].upper()}{section[1:]}", ""]
        if section == "cost":
            lines += cost_table(list(of_section))
            continue
        for case, of_case in groupby(of_section, key=lambda result: result.case):
            lines += case_table(case, list(of_case))
    return lines


def case_table(case: str, results: list[Result]) -> list[str]:
    """Return one table; the columns of a peer tell how many times its time is that of the line."""
    first = kinds(results[0])
    peers = [result for result in results if result.peer]
    head = [f"{case} [{results[0].unit}]"]
    head += [f"{CLOCKS.get(first[0], 'best')}, best", "median"]
    head += [f"{CLOCKS[kind]}, best" for kind in first[1:]]
    head += [f"{peer.contender} ÷ this" for peer in peers]
    rows = []
    for result in results:
        cells = [result.contender, number(result.best(first[0])), number(result.median(first[0]))]
        cells += [number(result.best(kind)) for kind in first[1:]]
        cells += [number(peer.best(first[0]) / result.best(first[0])) for peer in peers]
        rows.append(cells)
    return table(head, rows)


def cost_table(results: list[Result]) -> list[str]:
    """Return sketch x (non-zeros, features)."""
    learners = list(dict.fromkeys(result.contender for result in results))
    rows = []
    for case, of_case in groupby(results, key=lambda result: result.case):
        by_name = {result.contender: result for result in of_case}
        rows.append([case, *(number(by_name[learner].best("cpu")) for learner in learners)])
    return table([f"{results[0].unit}, processor time, best", *learners], rows)


def target_table(results: list[Result]) -> list[str]:
    rows = []
    for verdict in targets.judge(results):
        target = verdict.target
        cells = [target.what, target.wanted]
        if verdict.measured is None or verdict.median is None or verdict.bound is None:
            cells += ["", "", ""]
        else:
            sign = "×" if target.sense != "number" else " MB" if target.kind == "memory" else " ms"
            bound = f" (of {number(verdict.bound)})" if target.per_feature or target.plus else ""
            cells += [
                f"{verdict.measured:.4g}{sign}{bound}",  # 11.99 of 12 is to be seen as missed
                f"{verdict.median:.4g}{sign}",
                " … ".join(map(number, verdict.range)) if verdict.range else "",
            ]
        rows.append([*cells, verdict.word])
    head = ["what", "target", "best", "median", "all cases, worst … best", ""]
    return table(head, rows, left=2)


def fit_table(results: list[Result]) -> list[str]:
    rows = [
        [fit.what, fit.contender, fit.formula, f"{fit.r2:.4f}", f"{fit.worst:.0%}"]
        for fit in plots.fits(results)
    ]
    head = ["time against", "", "least squares of the relative error", "R²", "worst point off by"]
    return table(head, rows, left=3) if rows else []
