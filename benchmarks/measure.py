"""Timing: contenders take turns, so that a busy moment of the machine falls on all of them.

Two clocks run: the processor time of all threads of the process, which other programs disturb
little, and elapsed time, which counts where two cores work at once. All rounds are kept;
reports show the best and the median.
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("sonline", "vowpalwabbit", "scikit-learn", "river", "numpy", "scipy")
CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


@dataclass(frozen=True)
class Times:
    """Seconds."""

    cpu: float
    wall: float

    def __sub__(self, other: Times) -> Times:
        return Times(self.cpu - other.cpu, self.wall - other.wall)


Run = Callable[[], Times]


@dataclass(frozen=True)
class Contender:
    """Something to be timed; `work` is its amount of work in a run, in the units of the report."""

    name: str
    run: Run
    work: float
    peer: bool = False
    about: dict[str, Any] = field(default_factory=dict)


@dataclass
class Result:
    """The numbers of a contender, one of each kind (cpu, wall, bytes) for every round."""

    section: str
    case: str
    contender: str
    unit: str
    values: dict[str, list[float]]
    peer: bool = False
    about: dict[str, Any] = field(default_factory=dict)

    def best(self, kind: str) -> float:
        return min(self.values[kind])

    def median(self, kind: str) -> float:
        return statistics.median(self.values[kind])

    @property
    def impossible(self) -> bool:
        """Whether one core claims more processor time than elapsed time.

        Then something else in the process was timed as well. Peers are left out: a difference of
        two runs may do that.
        """
        if self.peer or self.about.get("cores") != 1:
            return False
        pairs = zip(self.values["cpu"], self.values["wall"], strict=True)
        return any(cpu > 1.1 * wall for cpu, wall in pairs)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def timed(function: Callable[..., object], prepare: Callable[[], object] | None = None) -> Run:
    """Return a run that times `function`, called with what `prepare` makes, which is not timed."""

    def run() -> Times:
        made = () if prepare is None else (prepare(),)
        start = time.process_time(), time.perf_counter()
        function(*made)
        return Times(time.process_time() - start[0], time.perf_counter() - start[1])

    return run


def take_turns(
    section: str,
    case: str,
    unit: str,
    contenders: Iterable[Contender],
    rounds: int,
    *,
    seconds: float = 1.0,
    **about: Any,
) -> Iterator[Result]:
    """Run each contender once a round, in alternating order; one unit of time has so many seconds.

    A first round, which finds caches and branch predictors cold, does not count where there are
    several.
    """
    runners = list(contenders)
    times: dict[str, list[Times]] = {contender.name: [] for contender in runners}
    for number in range(rounds + (rounds > 1)):
        for contender in runners if number % 2 else reversed(runners):
            taken = contender.run()
            if number or rounds == 1:
                times[contender.name].append(taken)
    for contender in runners:
        scale = 1 / (contender.work * seconds)
        values = {
            "cpu": [rounded(time_taken.cpu * scale) for time_taken in times[contender.name]],
            "wall": [rounded(time_taken.wall * scale) for time_taken in times[contender.name]],
        }
        details = {**about, **contender.about}
        yield Result(section, case, contender.name, unit, values, contender.peer, details)


def rounded(number: float) -> float:
    return float(f"{number:.5g}")


def pin(cores: Iterable[int]) -> None:
    """Keep this process, and those that it starts, on the given cores (where the system can)."""
    if CORES:
        os.sched_setaffinity(0, set(cores))


def machine() -> dict[str, Any]:
    """Return a description of the machine, without names of hosts or people."""
    names: list[str] = []
    if (info := Path("/proc/cpuinfo")).exists():
        lines = info.read_text(encoding="utf-8").splitlines()
        names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.processor(),
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "load at start": [round(x, 2) for x in os.getloadavg()],
    }


def versions() -> dict[str, str]:
    listed = {"Python": platform.python_version()}
    for name in PACKAGES:
        try:
            listed[name] = version(name)
        except PackageNotFoundError:
            listed[name] = "not installed"
    return listed
