"""Measure what learns relations that are not linear; write docs/accuracy-curves.md.

python -m benchmarks.curves --data-dir DIR --cache DIR   all of it; continues an interrupted run
python -m benchmarks.curves --streams bike --only VW     a part
python -m benchmarks.curves --report run.json            only the page, from an earlier run

Contenders that are not installed are left out: River, CapyMOA (with Java), Vowpal Wabbit,
scikit-learn, interpret-core and pyGAM. --cache is the folder of `benchmarks.accuracy`; without
it, tables of archives are left out.
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

import numpy as np

from benchmarks import curves_report
from benchmarks.accuracy.cache import Cache, rows_or_reason, tidy
from benchmarks.accuracy.protocol import score
from benchmarks.accuracy.sources import Sources
from benchmarks.accuracy.stream import Stream
from benchmarks.accuracy.streams import all_streams
from benchmarks.curves_contenders import ENTRIES, Entry, bytes_of, installed, warm_up

# Tables on which constants of curves were chosen, and then all of the report half that have two
# classes or numbers, 5 to 20 columns and 10,000 rows or more, but for rare classes.
DEVELOPMENT = (
    *("magic04", "concrete", "elec", "airfoil", "ijcnn1", "energy", "diabetes", "abalone"),
)
REPORT = (
    *("california", "weather", "elevators", "bike", "hyperplane drift fast", "BudgetFood"),
    *("CPSSW8 earnings", "CPSSW9204 earnings", "storms wind", "fdgs wgt"),
    *("wooldridge labsup worked", "wooldridge labsup hours", "wooldridge countymurders murdrate"),
    "energy load hourly in time order, calendar and weather-driven generation",
    "rain by station, in time order",
)
STREAMS = DEVELOPMENT + REPORT
LEARNED = 0.7  # of the rows; the model then predicts the others
NEVER_SURE = 1e-3  # probabilities are cut here: forests say 0 and 1
ENOUGH = 0.05  # seconds that fast ones learn in all: the fastest of several times counts


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.curves",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("SONLINE_DATA"))
    parser.add_argument("--cache", type=Path, help="the folder of built streams")
    parser.add_argument("--rows", type=int, default=4_000, help="of each stream, at most")
    parser.add_argument("--only", nargs="*", help="contenders whose names contain one of these")
    parser.add_argument("--streams", nargs="*", help="streams whose names contain one of these")
    parser.add_argument("--out", type=Path, default=Path("build/accuracy-curves"))
    parser.add_argument("--page", type=Path, default=Path("docs/accuracy-curves.md"))
    parser.add_argument("--report", type=Path, help="the run.json of an earlier run")
    options = parser.parse_args()
    if options.report:
        run = json.loads(options.report.read_text(encoding="utf-8"))
    else:
        options.out.mkdir(parents=True, exist_ok=True)
        run = measured(options)
    run["left out"] = [
        name for name in STREAMS if name not in {r["stream"] for r in run["results"]}
    ]
    options.page.write_text(curves_report.page(run), encoding="utf-8")


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """Run every contender on every stream; what run.json has is not run again."""
    names = [
        name
        for name in STREAMS
        if not options.streams or any(part in name for part in options.streams)
    ]
    data_dir = None if options.data_dir is None else Path(options.data_dir)
    sources = None if options.cache is None else Sources(options.cache / "archives")
    known = {stream.name: stream for stream in all_streams(data_dir, sources, names)}
    if missing := [name for name in names if name not in known]:
        print(f"left out: {', '.join(missing)} (--data-dir, --cache)", file=sys.stderr)
    entries = [
        entry
        for entry in ENTRIES
        if installed(entry)
        and (not options.only or any(part in entry.name for part in options.only))
    ]
    rows_of = tidy if options.cache is None else Cache(options.cache / "streams").rows
    path = options.out / "run.json"
    run: dict[str, Any] = {"rows": options.rows, "results": []}
    if path.exists():
        earlier = json.loads(path.read_text(encoding="utf-8"))
        run = earlier if earlier["rows"] == options.rows else run
    run["missing"] = [entry.name for entry in ENTRIES if not installed(entry)]
    results = {result["stream"]: result for result in run["results"]}
    missing_of = {
        stream.name: [
            entry
            for entry in entries
            if stream.kind in entry.kinds
            and entry.name not in results.get(stream.name, {}).get("scores", {})
        ]
        for stream in known.values()
    }
    if any(missing_of.values()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warm_up(entries)
    for stream in (known[name] for name in names if missing_of.get(name)):
        if (rows := rows_or_reason(rows_of, stream)) is None:
            continue
        X, y = (part[: options.rows] for part in rows)
        about = {"stream": stream.name, "kind": stream.kind, "half": stream.half}
        shape = {"rows": int(y.size), "features": int(X.shape[1]), "group": stream.group}
        result = results.setdefault(stream.name, {**about, **shape, "scores": {}})
        for entry in missing_of[stream.name]:
            result["scores"][entry.name] = scored(entry, stream, X.toarray(), y)
        run["results"] = [results[name] for name in STREAMS if name in results]
        path.write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
        print(f"{stream.name} {time.process_time():.0f} s", file=sys.stderr, flush=True)
    return run


def scored(entry: Entry, stream: Stream, X: np.ndarray, y: np.ndarray) -> dict[str, Any] | None:
    """Return the scores of one contender on one stream; None if it fails."""
    cut = int(LEARNED * y.size)
    spread = y.var() if stream.kind == "regression" else 1.0

    def judged(predictions: np.ndarray, truth: np.ndarray) -> dict[str, float]:
        if stream.kind == "binary":
            predictions = np.clip(predictions, NEVER_SURE, 1 - NEVER_SURE)
        scores = score(stream.kind, predictions, truth, spread)
        return {name: scores[name] for name in ("error", "log loss") if name in scores}

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            contender = entry.make(stream.kind)
            seconds, before = timed(contender, X[:cut], y[:cut])
            spent = seconds
            while spent < ENOUGH:
                again = timed(entry.make(stream.kind), X[:cut], y[:cut])[0]
                seconds, spent = min(seconds, again), spent + again
            result: dict[str, Any] = {"frozen": judged(contender.predict(X[cut:]), y[cut:])}
        except Exception as error:  # noqa: BLE001 - a contender that fails has no score
            print(f"{entry.name} on {stream.name}: {error!r}", file=sys.stderr)
            return None
        if not entry.batch:
            result["progressive"] = judged(before[cut // 2 :], y[cut // 2 : cut])
        return result | {"micro": 1e6 * seconds / cut, "bytes": bytes_of(contender)}


def timed(contender: Any, X: np.ndarray, y: np.ndarray) -> tuple[float, Any]:
    """Return the CPU time of learning, and the predictions made before each row."""
    start = time.process_time()
    before = contender.learn(X, y)
    return time.process_time() - start, before


if __name__ == "__main__":
    main()
