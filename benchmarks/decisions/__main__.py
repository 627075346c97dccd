"""Measure what a model knows beside its prediction; write docs/accuracy-decisions.md.

python -m benchmarks.decisions --data-dir DIR      all of it; continues an interrupted run
python -m benchmarks.decisions --only counts       counts, spread, intervals or labels
python -m benchmarks.decisions --report run.json   only the page, from an earlier run

Packages that are not installed are left out: glum, River, CapyMOA (with Java), MAPIE and crepes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from benchmarks.decisions import counts, intervals, labels, report, spread
from benchmarks.decisions.peers import PACKAGES, installed

PARTS = {
    "counts": lambda _: counts.run(),
    "spread": spread.run,
    "intervals": intervals.run,
    "labels": labels.run,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.decisions",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    folder = os.environ.get("SONLINE_DATA")
    parser.add_argument("--data-dir", type=Path, default=folder, help="a folder of svmlight files")
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--again", action="store_true", help="do not continue an earlier run")
    parser.add_argument("--out", type=Path, default=Path("build/accuracy-decisions"))
    parser.add_argument("--page", type=Path, default=Path("docs/accuracy-decisions.md"))
    parser.add_argument("--report", type=Path, help="the run.json of an earlier run")
    options = parser.parse_args()
    if options.report:
        run = json.loads(options.report.read_text(encoding="utf-8"))
    else:
        run = measured(options)
    options.page.write_text(report.page(run), encoding="utf-8")


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """Run the parts that run.json does not have."""
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "run.json"
    run: dict[str, Any] = {}
    if path.exists():
        run = json.loads(path.read_text(encoding="utf-8"))
    data_dir = None if options.data_dir is None else Path(options.data_dir)
    run["missing"] = [package for package in PACKAGES if not installed(package)]
    for name in options.only:
        if name in run and not options.again:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run[name] = PARTS[name](data_dir)
        path.write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
        print(f"{name}: {time.process_time():.0f} s so far", file=sys.stderr, flush=True)
    return run


if __name__ == "__main__":
    main()
