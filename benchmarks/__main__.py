"""Measure speed and memory beside the peers, in one run; write JSON, tables and plots.

python -m benchmarks                       all of it, about a quarter of an hour
python -m benchmarks --quick               a tenth of it, a few minutes
python -m benchmarks --only learning       one section
python -m benchmarks --report run.json     only tables and plots, from an earlier run
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import cost, learning, measure, memory, parsing, report, rows, storage, text
from benchmarks.settings import Settings

SECTIONS = {
    "learning": learning.measure,
    "parsing": parsing.measure,
    "rows": rows.measure,
    "storage": storage.measure,
    "memory": memory.measure,
    "text": text.measure,
    "lines": learning.measure_lines,
    "cost": cost.measure,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, two rounds")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--rounds", type=int, default=5, help="the best and the median of so many")
    parser.add_argument(
        "--data-dir",
        type=Path,
        default=os.environ.get("SONLINE_DATA"),
        help="folder with a9a.svm.gz, 20news.svm.gz, rcv1_subset.svm.gz [default: SONLINE_DATA]",
    )
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"))
    parser.add_argument("--report", type=Path, help="the run.json of an earlier run")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.report:
        run = json.loads(options.report.read_text(encoding="utf-8"))
    else:
        run = measured(options)
    report.write(run, options.out)


def measured(options: argparse.Namespace) -> dict[str, Any]:
    rounds = 2 if options.quick else options.rounds
    started = time.perf_counter()
    run: dict[str, Any] = {
        "machine": measure.machine(),
        "versions": measure.versions(),
        "rounds": rounds,
        "quick": options.quick,
        "pinned": bool(measure.CORES),
        "results": [],
    }
    measure.pin(measure.CORES[-1:])
    with TemporaryDirectory() as folder:
        settings = Settings(options.quick, rounds, options.data_dir, Path(folder))
        for name in options.only:
            before = time.perf_counter()
            for result in SECTIONS[name](settings):
                run["results"].append(result.as_dict())
                print(report.line(result), flush=True)
            (options.out / "run.json").write_text(report.compact(run), encoding="utf-8")
            print(f"({name}: {time.perf_counter() - before:.0f} s)", flush=True)
    run["load at end"] = [round(x, 2) for x in os.getloadavg()]
    run["seconds"] = round(time.perf_counter() - started)
    return run


if __name__ == "__main__":
    main()
