"""Saving, loading and start-up."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from sklearn.linear_model import SGDClassifier

from benchmarks import data, peers
from benchmarks.measure import Contender, Result, Run, Times, take_turns, timed
from benchmarks.settings import Settings
from sonline import OnlineLearner

SAVE, START = "save and load", "start-up"
MILLI = 1e-3
FRESH = """
import json, sys, time
start = time.process_time(), time.perf_counter()
{work}
print(json.dumps([time.process_time() - start[0], time.perf_counter() - start[1]]))
"""
PROGRAMS = {
    "import sonline, learn one row": """
from sonline import OnlineLearner
OnlineLearner().learn_one({"a": 1.0}, 1)
""",
    "import scikit-learn, SGDClassifier learns one row": """
from sklearn.linear_model import SGDClassifier
SGDClassifier().partial_fit([[1.0]], [1], classes=[0, 1])
""",
    "import River, learn one row": """
from river import linear_model
linear_model.LogisticRegression().learn_one({"a": 1.0}, True)
""",
    "import vowpalwabbit, learn one row (-b 18)": """
from vowpalwabbit import Workspace
Workspace("--quiet -b 18").learn("1 | a:1")
""",
}
# After the imports: the cost of the table of features.
HASHED = """
import json, sys, time
from pathlib import Path
from sonline import OnlineLearner
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
OnlineLearner().learn_one({"a": 1.0}, 1)
before, start = resident(), (time.process_time(), time.perf_counter())
learner = OnlineLearner(hash_bits=BITS)
learner.learn_one({"a": 1.0, 123456789: 2.0}, 1)
print(json.dumps([time.process_time() - start[0], time.perf_counter() - start[1],
                  resident() - before]))
"""
BITS = 26
VW_BITS = 24
HASHED_CASE = f"first row with hash_bits={BITS}, after the imports"
VW_CASE = f"first row of Vowpal Wabbit with -b {VW_BITS}, after the imports"


def measure(settings: Settings) -> Iterator[Result]:
    yield from save_and_load(settings)
    yield from start_up(settings)


def save_and_load(settings: Settings) -> Iterator[Result]:
    """Models of a million features; Vowpal Wabbit's file lacks the sketch."""
    features = settings.size(1_000_000)
    rows = data.every_feature(features)
    folder = settings.folder
    learner = OnlineLearner()
    learner.learn(rows.X, rows.y)
    sgd = SGDClassifier(loss="log_loss", max_iter=1, tol=None).fit(rows.X, rows.y)
    ours, theirs = folder / "saved.son", folder / "saved.pickle"
    contenders = {
        "save": [
            Contender("OnlineLearner.save, m = 10", timed(lambda: learner.save(ours)), 1),
            Contender(
                "pickle of SGDClassifier",
                timed(lambda: theirs.write_bytes(pickle.dumps(sgd))),
                1,
                peer=True,
            ),
        ],
        "load": [
            Contender("OnlineLearner.load, m = 10", timed(lambda: OnlineLearner.load(ours)), 1),
            Contender(
                "pickle of SGDClassifier",
                timed(lambda: pickle.loads(theirs.read_bytes())),
                1,
                peer=True,
            ),
        ],
    }
    learner.save(ours)
    theirs.write_bytes(pickle.dumps(sgd))
    if peers.Workspace is not None:
        bits, file = peers.vw_bits(features), folder / "saved.vw"
        vw = peers.Workspace(f"--quiet -b {bits} {peers.vw_oja(10)}")
        for line in data.texts(rows)[1].decode().splitlines():
            vw.learn(line)
        vw.save(str(file))
        name = f"{peers.vw_name(peers.vw_oja(10))} (weights only)"
        contenders["save"].append(Contender(name, timed(lambda: vw.save(str(file))), 1, peer=True))
        load = timed(lambda: peers.Workspace(f"--quiet -i {file}").finish())
        contenders["load"].append(Contender(name, load, 1, peer=True))
    sizes = {"megabytes": ours.stat().st_size / 1e6}
    for verb, contender in contenders.items():
        yield from take_turns(
            SAVE,
            f"{verb} {features:,} features",
            "ms",
            contender,
            min(settings.rounds, 3),
            seconds=MILLI,
            cores=1,
            **sizes,
        )


def start_up(settings: Settings) -> Iterator[Result]:
    rounds = min(settings.rounds, 3)
    contenders = [
        Contender(name, fresh(FRESH.format(work=work)), 1, peer="sonline" not in name)
        for name, work in PROGRAMS.items()
        if peers.Workspace is not None or "vowpalwabbit" not in name
    ]
    case = "a new Python process learns its first row"
    yield from take_turns(START, case, "ms", contenders, rounds, seconds=MILLI, cores=1)
    yield from hashed_start(rounds)
    if peers.Workspace is not None:
        bits = 18 if settings.quick else VW_BITS
        found = [
            Contender(
                peers.vw_name(options), vw_start(options, bits, settings.folder), 1, peer=True
            )
            for options in ("", peers.vw_oja(10))
        ]
        yield from take_turns(START, VW_CASE, "ms", found, 1, seconds=MILLI, cores=1)


def fresh(program: str) -> Run:
    return lambda: Times(*output_of(program))


def output_of(program: str) -> list[float]:
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    return list(map(float, json.loads(done.stdout.splitlines()[-1])))


def hashed_start(rounds: int) -> Iterator[Result]:
    runs = [output_of(HASHED.replace("BITS", str(BITS))) for _ in range(rounds)]
    cpu, wall, size = (list(column) for column in zip(*runs, strict=True))
    milliseconds = {"cpu": [1e3 * x for x in cpu], "wall": [1e3 * x for x in wall]}
    yield Result(START, HASHED_CASE, "OnlineLearner", "ms", milliseconds)
    megabytes = {"memory": [x / 1e6 for x in size]}
    yield Result(START, f"{HASHED_CASE}: memory", "OnlineLearner", "MB", megabytes)


def vw_start(arguments: str, bits: int, folder: Path) -> Run:
    path = folder / "one.vw"
    path.write_text("1 | 1:1\n")
    return lambda: peers.vw_seconds(f"-d {path} -b {bits} {arguments}")
