"""From text to a model: `sonline train` beside Vowpal Wabbit on the same rows, and its memory.

The contenders take turns, each in a process of its own, and the best time counts: what disturbs one
of them on a busy machine disturbs all. Times run from after the imports to the end; "CPU" is the
processor time of all threads, which is what can be trusted where other programs run.
Vowpal Wabbit's wheel is installed into an environment of its own (--vw-environment) if it is not
there yet. The sketch has ten directions in both programs.

    python benchmarks/bench_text.py --megabytes 200 --memory-megabytes 2000
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

BLOCK = 20_000  # rows made at once
PEERS = {"OjaNewton": "vw --OjaNewton --sketch_size 10", "default": "vw (default learner)"}
VW_PROGRAM = """
import sys, time
from vowpalwabbit import Workspace
start = time.perf_counter(), time.process_time()
Workspace(sys.argv[1]).finish()
print(time.perf_counter() - start[0], time.process_time() - start[1])
"""
SONLINE_PROGRAM = """
import re, sys, time
from sonline.cli.train import app
start = time.perf_counter(), time.process_time()
app(sys.argv[1:], standalone_mode=False)
print(time.perf_counter() - start[0], time.process_time() - start[1])
print(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])
"""


def blocks(features: int, dimensions: int) -> Iterator[tuple[str, str]]:
    """Yield the same rows as svmlight and as Vowpal Wabbit text, without end."""
    rng = np.random.default_rng(0)
    truth = rng.normal(size=3 * dimensions)
    while True:
        gaps = rng.integers(1, 2 * dimensions // features, (BLOCK, features))
        indices = np.cumsum(gaps, axis=1)
        values = np.round(rng.random((BLOCK, features)), 4)
        labels = np.where((truth[indices] * values).sum(axis=1) > 0, 1, -1)
        svmlight, vw = [], []
        for label, row, numbers in zip(
            labels.tolist(), indices.tolist(), values.tolist(), strict=True
        ):
            pairs = " ".join(map("{}:{:.4f}".format, row, numbers))
            svmlight.append(f"{label} {pairs}\n")
            vw.append(f"{label} | {pairs}\n")
        yield "".join(svmlight), "".join(vw)


def write(folder: Path, megabytes: float, features: int, dimensions: int) -> tuple[Path, Path]:
    """Write both files, of at least so many megabytes."""
    paths = folder / "rows.svm", folder / "rows.vw"
    with paths[0].open("w") as svmlight, paths[1].open("w") as vw:
        for first, second in blocks(features, dimensions):
            svmlight.write(first)
            vw.write(second)
            if svmlight.tell() >= megabytes * 1e6:
                break
    return paths


def vw_python(folder: Path) -> Path:
    """Return the interpreter of an environment that has Vowpal Wabbit."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "vowpalwabbit"], check=True)
    return python


def with_sonline(path: Path, model: Path, *options: str) -> list[float]:
    """Return seconds, seconds of the processor and the largest memory in kilobytes."""
    command = [sys.executable, "-c", SONLINE_PROGRAM, path, "-o", model, "--quiet", *options]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [float(word) for word in done.stdout.split()]


def with_vw(python: Path, path: Path, options: str) -> list[float]:
    """Return seconds and seconds of the processor."""
    arguments = f"--data {path} --quiet -b 18 --loss_function logistic {options}"
    done = subprocess.run(
        [python, "-c", VW_PROGRAM, arguments], check=True, capture_output=True, text=True
    )
    return [float(word) for word in done.stdout.split()]


def measure_speed(options: argparse.Namespace, folder: Path) -> list[dict[str, object]]:
    svmlight, vw = write(folder, options.megabytes, options.features, options.dimensions)
    python = vw_python(options.vw_environment)
    model = folder / "model.son"
    contenders: dict[str, tuple[Path, Callable[[], list[float]]]] = {
        "sonline, svmlight": (svmlight, lambda: with_sonline(svmlight, model)),
        "sonline --sketch oja, svmlight": (
            svmlight,
            lambda: with_sonline(svmlight, model, "--sketch", "oja"),
        ),
        "sonline, VW text, exact names": (vw, lambda: with_sonline(vw, model)),
        "sonline, VW text, 18 bits": (
            vw,
            lambda: with_sonline(vw, model, "--hash-bits", "18"),
        ),
        "vw --OjaNewton --sketch_size 10": (
            vw,
            lambda: with_vw(python, vw, "--OjaNewton --sketch_size 10"),
        ),
        "vw (default learner)": (vw, lambda: with_vw(python, vw, "")),
    }
    wall = dict.fromkeys(contenders, math.inf)
    cpu = dict.fromkeys(contenders, math.inf)
    for _ in range(options.repeats):
        for name, (_, run) in contenders.items():
            times = run()
            wall[name] = min(wall[name], times[0])
            cpu[name] = min(cpu[name], times[1])
    results: list[dict[str, object]] = []
    for name in contenders:
        ratios = {
            f"{other} / this, {kind}": round(times[full] / times[name], 2)
            for other, full in PEERS.items()
            for kind, times in (("time", wall), ("CPU", cpu))
        }
        size = contenders[name][0].stat().st_size
        results.append(
            {
                "contender": name,
                "seconds": round(wall[name], 3),
                "cpu_seconds": round(cpu[name], 3),
                "mb_per_second": round(size / 1e6 / wall[name], 1),
                **ratios,
            }
        )
    return results


def measure_memory(options: argparse.Namespace, folder: Path) -> dict[str, object]:
    """Train on a large file; the largest memory of the process and of its model."""
    path = folder / "large.svm"
    with path.open("w") as file:
        made = [
            first
            for (first, _), _ in zip(
                blocks(options.features, options.dimensions), range(5), strict=False
            )
        ]
        while file.tell() < options.memory_megabytes * 1e6:
            for block in made:
                file.write(block)
    model = folder / "model.son"
    seconds, _, kilobytes = with_sonline(path, model)
    return {
        "file_megabytes": round(path.stat().st_size / 1e6),
        "peak_megabytes": round(kilobytes / 1024, 1),
        "model_file_megabytes": round(model.stat().st_size / 2**20, 1),
        "seconds": round(seconds, 1),
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--megabytes", type=float, default=200)
    arguments.add_argument("--memory-megabytes", type=float, default=2000, help="0 leaves it out")
    arguments.add_argument("--features", type=int, default=64, help="features of a row")
    arguments.add_argument("--dimensions", type=int, default=50_000, help="largest index, about")
    arguments.add_argument("--repeats", type=int, default=3)
    arguments.add_argument("--vw-environment", type=Path, default=Path("build/bench-vw"))
    arguments.add_argument("--json", action="store_true", help="print one JSON object")
    options = arguments.parse_args()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        speed = measure_speed(options, folder) if options.megabytes else []
        for path in folder.iterdir():
            path.unlink()
        memory = measure_memory(options, folder) if options.memory_megabytes else None
    if options.json:
        print(json.dumps({"speed": speed, "memory": memory}))
        return
    print(f"text of {options.megabytes:g} MB, best of {options.repeats}")
    for one in speed:
        print(f"  {one['contender']:34}{one['seconds']:9.3f} s{one['cpu_seconds']:9.3f} s CPU")
        ratios = [f"{key} {value}" for key, value in one.items() if "/" in key]
        print(f"      {'; '.join(ratios)}")
    if memory:
        print(
            f"memory on a file of {memory['file_megabytes']} MB: {memory['peak_megabytes']} MB, "
            f"with a model file of {memory['model_file_megabytes']} MB; {memory['seconds']:.1f} s"
        )
    print(f"({time.perf_counter() - started:.0f} s in all)")


if __name__ == "__main__":
    main()
