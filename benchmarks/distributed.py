"""What merging and training on several workers cost and are worth: figures of docs/distributed.md.

    python -m benchmarks.distributed --data-dir DIR --out docs/distributed

Error on held-out rows against the number of shards (simulated here, one after another), the time
and the bytes of a merge, and the throughput of one and two Dask workers on files. Writes
figures.json, figures.md and shards.png into the folder.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.data import Shape, generated, texts
from sonline import OnlineLearner
from sonline.distributed.shards import moved_bytes
from sonline.paper import datasets
from sonline.paper.experiments import ill_conditioned

SHARDS = (1, 2, 4, 8, 16, 32, 64)
REAL = ("a9a", "census", "ijcnn1")
HELD_OUT = 0.2
ROUNDS = 3


def sets(folder: Path | None) -> Iterator[tuple[str, Any, np.ndarray]]:
    for name in REAL:
        if datasets.locate(name, folder) is None:
            print(f"{name}: not in the folder, left out")
            continue
        dataset = datasets.load(name, folder)
        order = np.random.default_rng(0).permutation(len(dataset.y))
        yield name, dataset.X[order], dataset.y[order]
    X, y = ill_conditioned(200, rounds=60_000)
    yield "ill-conditioned, kappa 200", X, y


def trained(learners: list[OnlineLearner], X: Any, y: np.ndarray) -> list[OnlineLearner]:
    for number, learner in enumerate(learners):
        learner.learn(X[number :: len(learners)], y[number :: len(learners)])
    return learners


def errors(X: Any, y: np.ndarray) -> Iterator[dict[str, Any]]:
    """Yield the errors on held-out rows for each number of shards."""
    cut = int(len(y) * (1 - HELD_OUT))
    seen, labels, held, wanted = X[:cut], y[:cut], X[cut:], y[cut:] > 0

    def error(raw: np.ndarray) -> float:
        return float(np.mean((raw > 0) != wanted))

    for shards in SHARDS:
        learners = trained([OnlineLearner() for _ in range(shards)], seen, labels)
        raw = np.array([learner.predict(held) for learner in learners])
        merged = learners[0].merge(learners[1:])
        result = {
            "shards": shards,
            "shard": float(np.mean([error(learner) for learner in raw])),
            "average": error(raw.mean(axis=0)),
            "merged": error(merged.predict(held)),
        }
        for _ in range(ROUNDS - 1):
            start = merged
            learners = trained([start.merge([]) for _ in range(shards)], seen, labels)
            merged = learners[0].merge(learners[1:], start=start)
        yield result | {f"{ROUNDS} rounds": error(merged.predict(held))}


def merges() -> Iterator[dict[str, Any]]:
    """Yield time and bytes of merging four learners, by features seen and by directions."""
    usual = (("default", {}), ("alpha given", {"alpha": "relative:0.1"}))
    sizes = tuple((f"{m} directions", {"sketch_size": m}) for m in (5, 20, 40))
    for features, cases in ((10_000, usual), (100_000, usual + sizes), (1_000_000, usual)):
        rows = generated(Shape(64, features), 4 * max(2000, features // 16))
        for name, parameters in cases:
            learners = trained([OnlineLearner(**parameters) for _ in range(4)], rows.X, rows.y)
            best = min(
                _processor_seconds(lambda each=learners: each[0].merge(each[1:])) for _ in range(3)
            )
            seen = learners[0].merge(learners[1:]).stats()["features"]
            moved = moved_bytes(learners[0])
            yield {
                "learner": name,
                "features": seen,
                "seconds": best,
                "ns_per_feature_and_learner": best / seen / 4 * 1e9,
                "bytes_per_worker": moved,
                "bytes_per_feature": moved / learners[0].stats()["features"],
            }


def _processor_seconds(work: Any) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def throughput(rows: int, repeats: int) -> Iterator[dict[str, Any]]:
    """Yield the speed of one and two workers on eight files, the cluster being up.

    Few rows show what merging costs, which is the same for any number of them.
    """
    from sonline.cli.cluster import _start, client_of, train_file  # noqa: PLC0415 - slow to import
    from sonline.distributed.dask import DaskRunner  # noqa: PLC0415
    from sonline.distributed.rounds import Task, train_rounds  # noqa: PLC0415
    from sonline.training import RunSettings  # noqa: PLC0415

    data = generated(Shape(64, 50_000), rows)
    text = texts(data)[0].splitlines(keepends=True)
    with TemporaryDirectory() as folder:
        files = []
        for number in range(8):
            files.append(str(Path(folder, f"part-{number}.svm")))
            Path(files[-1]).write_bytes(b"".join(text[number::8]))
        settings = RunSettings(files)
        start, _ = _start(settings, files[0])
        tasks = [Task(n, name, train_file, (n, name, settings)) for n, name in enumerate(files)]
        for workers in (1, 2):
            with client_of(f"local:{workers}") as client:
                # A worker reads ahead in a separate thread; here it has one processor for both.
                for place, address in enumerate(sorted(client.scheduler_info()["workers"])):
                    client.run(os.sched_setaffinity, 0, {place}, workers=[address])
                runner = DaskRunner(client)
                train_rounds(runner, tasks, start)  # everything is imported after this
                each, busiest = [], []
                for _ in range(repeats):
                    before, started = client.run(time.process_time), time.perf_counter()
                    outcome = train_rounds(runner, tasks, start)
                    each.append(time.perf_counter() - started)
                    after = client.run(time.process_time)
                    busiest.append(max(after[name] - before[name] for name in after))
                figures = outcome.rounds[0].figures
                yield {
                    "rows": rows,
                    "workers": workers,
                    "seconds": sorted(each),
                    "busiest": sorted(busiest),
                    "rows_per_second": rows / min(each),
                    "bytes_per_worker_and_merge": max(partition.bytes for partition in figures),
                }


def table(head: list[str], lines: list[list[Any]]) -> str:
    rows = [head, ["---"] * len(head), *([str(cell) for cell in line] for line in lines)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def written(results: dict[str, Any]) -> str:
    parts = []
    for name, lines in results["errors"].items():
        head = list(lines[0])
        parts.append(
            f"Error in % on held-out rows, {name}:\n\n"
            + table(
                head,
                [[line["shards"], *(f"{100 * line[k]:.2f}" for k in head[1:])] for line in lines],
            )
        )
    parts.append(
        "Merging four learners, processor time:\n\n"
        + table(
            ["learner", "features seen", "seconds", "ns a feature and learner", "bytes a feature"],
            [
                [
                    line["learner"],
                    f"{line['features']:,}",
                    f"{line['seconds']:.3f}",
                    f"{line['ns_per_feature_and_learner']:.0f}",
                    f"{line['bytes_per_feature']:.0f}",
                ]
                for line in results["merges"]
            ],
        )
    )
    if results["throughput"]:
        alone = {line["rows"]: line for line in results["throughput"] if line["workers"] == 1}
        lines = []
        for line in results["throughput"]:
            first = alone[line["rows"]]
            lines.append(
                [
                    f"{line['rows']:,}",
                    line["workers"],
                    f"{line['rows_per_second']:,.0f}",
                    f"{line['rows_per_second'] / first['rows_per_second']:.2f}",
                    f"{line['busiest'][0]:.2f}",
                    f"{first['busiest'][0] / line['busiest'][0]:.2f}",
                    f"{line['bytes_per_worker_and_merge']:,}",
                ]
            )
        head = ["rows", "workers", "rows/s", "against one"]
        head += ["processor seconds of the busiest worker", "one / this"]
        head += ["bytes moved by a worker for a merge"]
        parts.append(
            "Training on eight files, the cluster being up (best of the repeats):\n\n"
            + table(head, lines)
        )
    machine = results["machine"]
    parts.append(
        f"Measured on {machine['processors']} processors; load average at the beginning "
        f"{machine['load'][0]:.1f}, at the end {machine['load'][1]:.1f}.\n"
    )
    return "\n".join(parts)


def drawn(results: dict[str, Any], path: Path) -> None:
    import matplotlib.pyplot as plt  # noqa: PLC0415 - slow to import

    figure, axes = plt.subplots(
        1, len(results["errors"]), figsize=(4 * len(results["errors"]), 3.4)
    )
    for axis, (name, lines) in zip(np.atleast_1d(axes), results["errors"].items(), strict=True):
        x = [line["shards"] for line in lines]
        for kind in list(lines[0])[1:]:
            axis.plot(x, [100 * line[kind] for line in lines], marker=".", label=kind)
        axis.axhline(100 * lines[0]["merged"], color="grey", linestyle=":", label="single pass")
        axis.set(title=name, xscale="log", xlabel="shards", xticks=x, xticklabels=x)
    np.atleast_1d(axes)[0].set_ylabel("error on held-out rows, %")
    np.atleast_1d(axes)[0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path, default=Path("build/distributed"))
    parser.add_argument("--only", nargs="+", choices=["errors", "merges", "throughput"])
    parser.add_argument(
        "--rows",
        type=int,
        nargs="+",
        default=[200_000, 800_000],
        help="of the tests of throughput (default: 200000 800000)",
    )
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "figures.json"
    results = json.loads(path.read_text()) if options.only and path.exists() else {}
    load = os.getloadavg()[0]
    wanted = options.only or ["errors", "merges", "throughput"]
    if "errors" in wanted:
        results["errors"] = {}
        for name, X, y in sets(options.data_dir):
            results["errors"][name] = list(errors(X, y))
            print(name, *results["errors"][name], sep="\n  ", flush=True)
    if "merges" in wanted:
        results["merges"] = list(merges())
        print(*results["merges"], sep="\n", flush=True)
    if "throughput" in wanted:
        results["throughput"] = [
            line for rows in options.rows for line in throughput(rows, options.repeats)
        ]
        results["machine"] = {
            "processors": os.cpu_count(),
            "load": [load, os.getloadavg()[0]],
        }
        print(*results["throughput"], sep="\n", flush=True)
    for name, nothing in (("errors", {}), ("merges", []), ("throughput", [])):
        results.setdefault(name, nothing)
    results.setdefault(
        "machine", {"processors": os.cpu_count(), "load": [load, os.getloadavg()[0]]}
    )
    path.write_text(json.dumps(results, indent=1) + "\n")
    (options.out / "figures.md").write_text(written(results))
    if results["errors"]:
        drawn(results, options.out / "shards.png")


if __name__ == "__main__":
    main()
