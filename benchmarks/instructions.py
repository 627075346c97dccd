"""Compare the instructions that the kernel executes on fixed rows with the committed counts.

    python -m benchmarks.instructions             fails if a count grew by more than 10 %
    python -m benchmarks.instructions --update    writes the counts of this machine

Counts come from callgrind (part of valgrind), which runs the program on a simulated processor:
other programs do not disturb them, and they say in seconds what a benchmark says in minutes.
Another compiler makes other instructions, so there the counts are shown and not judged.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
COMMITTED = Path(__file__).parent / "instructions.json"
BUILD = ROOT / "build" / "kernel"
TOLERANCE = 0.10
Shape = tuple[int, int, int, str]
AUTO = "auto 11"  # the default
# Non-zeros, features, rows, and the kind of rows (kernel_bench.cpp).
SHAPES = {"even": (64, 5_000, 2_000, "even"), "zipf": (75, 50_000, 2_000, "zipf")}
LEARNERS = {
    "even": ("none 0", "adagrad 0", "oja 10", "oja 30", "isotropic 10", "fd 10", "rfd 10", AUTO),
    "zipf": ("none 0", "adagrad 0", "oja 10", "isotropic 10", "fd 10", AUTO),
}


def build() -> Path:
    """Compile the kernel's own benchmark with the flags of the package."""
    nanobind = subprocess.run(
        [sys.executable, "-m", "nanobind", "--cmake_dir"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    configure: list[str | Path] = ["cmake", "-S", ROOT, "-B", BUILD, "-G", "Ninja"]
    configure.append("-DCMAKE_BUILD_TYPE=Release")
    configure += [f"-Dnanobind_DIR={nanobind}", f"-DPython_EXECUTABLE={sys.executable}"]
    for command in (configure, ["cmake", "--build", BUILD, "--target", "kernel_bench"]):
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{done.stdout}{done.stderr}")
    return BUILD / "kernel_bench"


def count(
    program: Path, learner: str, shape: Shape, environment: Mapping[str, str] | None = None
) -> int:
    """Return the instructions of one pass of `learn`."""
    command = [
        "valgrind",
        "--tool=callgrind",
        "--callgrind-out-file=/dev/null",
        "--toggle-collect=measured_learn",
        str(program),
        *learner.split(),
        *map(str, shape),
        "1",
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    match = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or not match:
        sys.exit(f"callgrind failed for {learner}:\n{done.stderr}")
    return int(match[1])


def compare(counts: dict[str, int], committed: dict[str, int]) -> list[str]:
    """Return the learners whose count grew beyond the tolerance, and print all."""
    grown = []
    for learner, now in counts.items():
        nonzeros, _, rows, _ = SHAPES[learner.split()[0]]
        work = nonzeros * rows
        before = committed.get(learner)
        change = f"{now / before - 1:+.1%}" if before else "new"
        print(f"{learner:18} {now / work:9.1f} instructions per non-zero   {change}")
        if before and now > before * (1 + TOLERANCE):
            grown.append(learner)
    return grown


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--update", action="store_true", help="commit the result afterwards")
    update = parser.parse_args().update
    if shutil.which("valgrind") is None:
        print("instruction counts not compared: valgrind is not installed")
        return int(update)
    program = build()
    where = {
        "compiler": subprocess.check_output([program, "--compiler"], text=True).strip(),
        "architecture": platform.machine(),
    }
    counts = {
        f"{kind} {learner}": count(program, learner, shape)
        for kind, shape in SHAPES.items()
        for learner in LEARNERS[kind]
    }
    committed = json.loads(COMMITTED.read_text(encoding="utf-8")) if COMMITTED.exists() else {}
    grown = compare(counts, committed.get("counts", {}))
    if update:
        COMMITTED.write_text(
            json.dumps({**where, "counts": counts}, indent=1) + "\n", encoding="utf-8"
        )
        print(f"written: {COMMITTED.relative_to(ROOT)}")
        return 0
    if any(committed.get(key) != value for key, value in where.items()):
        print(
            f"not judged: committed with {committed.get('compiler')}, this is {where['compiler']}"
        )
        return 0
    if grown:
        print(f"more than {TOLERANCE:.0%} more instructions than committed: {', '.join(grown)}.")
        print("Make it faster, or say why in the commit that runs")
        print('make bench-instructions BENCH_ARGS="--update"')
    return int(bool(grown))


if __name__ == "__main__":
    sys.exit(main())
