"""From text to a model: `sonline train` beside Vowpal Wabbit, on the same rows, from files.

Each run is a separate process, on one core and on two. Times go from after the imports to the
end, model written. Both sides may use a second core for parsing.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks import data, peers
from benchmarks.data import Rows
from benchmarks.learners import ADAGRAD, DEFAULT, NONE, OJA, Learner
from benchmarks.measure import CORES, Contender, Result, Run, Times, take_turns
from benchmarks.settings import Settings

SECTION = "text to model"
MEGABYTES = 200
BLOCK = 20_000  # rows made at once
VW_OJA, VW_DEFAULT = peers.vw_oja(10), ""
CHILD = """
import json, os, sys, time
cores, *arguments = json.loads(sys.argv[1])
if cores:
    os.sched_setaffinity(0, cores)
{ready}
start = time.process_time(), time.perf_counter()
{work}
print(json.dumps([time.process_time() - start[0], time.perf_counter() - start[1]]))
"""
# Both have started before the clock does: storage.py measures the start-up.
SONLINE = CHILD.format(
    ready="""from sonline.cli.train import app
few, *arguments = arguments
app([few, "-o", few + ".son", "--quiet"], standalone_mode=False)""",
    work="app(arguments, standalone_mode=False)",
)
VW = CHILD.format(
    ready="""from vowpalwabbit import Workspace
Workspace("--quiet").finish()""",
    work="Workspace(arguments[0]).finish()",
)


def measure(settings: Settings) -> Iterator[Result]:
    paths = write_large(settings.folder, settings.size(MEGABYTES))
    rounds = min(settings.rounds, 3)
    cases = [
        (f"generated, {megabytes(paths[0]):.0f} MB", paths),
        *(
            (dataset.name, write(dataset, settings.folder / dataset.name))
            for dataset in data.real(settings.data_dir)
        ),
    ]
    for case, files in cases:
        for cores in (CORES[-1:], CORES[:2]):
            yield from take_turns(
                SECTION,
                f"{case}, {len(cores)} core{'s' * (len(cores) > 1)}",
                "s",
                contenders(files, cores, settings),
                rounds,
                cores=len(cores),
                generated=files is paths,
                megabytes=megabytes(files[0]),
            )


def contenders(files: tuple[Path, Path], cores: list[int], settings: Settings) -> list[Contender]:
    svmlight, vw = files
    model, few = settings.folder / "model.son", settings.folder / "few.svm"
    few.write_text("1 1:1\n-1 2:1\n")

    def ours(name: str, path: Path, *options: str) -> Contender:
        arguments = [str(few), str(path), "-o", str(model), "--quiet", *options]
        return Contender(f"sonline train, {name}", child(SONLINE, cores, *arguments), 1)

    listed = [
        ours(learner.name, svmlight, *options_of(learner))
        for learner in (DEFAULT, OJA, ADAGRAD, NONE)
    ]
    listed.append(ours("default settings, VW text, 18 bits", vw, "--hash-bits", "18"))
    if peers.Workspace is not None:
        output = settings.folder / "model.vw"
        for options in (VW_OJA, VW_DEFAULT):
            arguments = f"--quiet -d {vw} -f {output} -b 18 {peers.VW_LOSS} {options}"
            name = peers.vw_name(options)
            listed.append(Contender(name, child(VW, cores, arguments), 1, peer=True))
    return listed


def options_of(learner: Learner) -> list[str]:
    if learner == DEFAULT:
        return []
    words = ["--sketch", learner.sketch, "--scaling", learner.scaling, "--alpha", learner.alpha]
    return [*words, "--sketch-size", str(learner.size)] if learner.size else words


def child(program: str, cores: list[int], *arguments: str) -> Run:
    def run() -> Times:
        request = json.dumps([cores, *arguments])
        command = [sys.executable, "-c", program, request]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return Times(*json.loads(done.stdout.splitlines()[-1]))

    return run


def write(rows: Rows, stem: Path) -> tuple[Path, Path]:
    paths = stem.with_suffix(".svm"), stem.with_suffix(".vw")
    for path, text in zip(paths, data.texts(rows), strict=True):
        path.write_bytes(text)
    return paths


def write_large(folder: Path, size: float) -> tuple[Path, Path]:
    """Write generated rows in both formats until the svmlight file has so many megabytes."""
    paths = folder / "large.svm", folder / "large.vw"
    with paths[0].open("wb") as svmlight, paths[1].open("wb") as vw:
        seed = 0
        while svmlight.tell() < size * 1e6:
            first, second = data.texts(data.generated(data.MAIN, BLOCK, seed), "{}:{:.4f}")
            svmlight.write(first)
            vw.write(second)
            seed += 1
    data.generated.cache_clear()
    return paths


def megabytes(path: Path) -> float:
    return path.stat().st_size / 1e6
