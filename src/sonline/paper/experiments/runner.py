"""All experiments by name, and the run that makes files of them."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TypeAlias

from sonline.errors import ParameterError
from sonline.paper.experiments.cells import Cell, Experiment, Setup, Store
from sonline.paper.experiments.exhibit import Exhibit
from sonline.paper.experiments.fig1 import Fig1
from sonline.paper.experiments.fig2 import Fig2
from sonline.paper.experiments.fig3 import Fig3
from sonline.paper.experiments.fig_splice import FigSplice
from sonline.paper.experiments.report import write_reports
from sonline.paper.experiments.runtime import Runtime
from sonline.paper.experiments.table_eigen import TableEigen
from sonline.paper.experiments.table_error import TableError
from sonline.paper.experiments.table_fd_oja import TableFdOja

Watch: TypeAlias = Callable[[int, int, Cell], None]
"""Called before each cell with how many are done, how many there are, and the cell."""

ALL: tuple[Experiment, ...] = (
    Fig1(),
    Fig2(),
    Fig3(),
    FigSplice(),
    TableError(),
    TableFdOja(),
    TableEigen(),
    Runtime(),
)
EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in ALL}


def reproduce(
    experiments: Sequence[Experiment],
    out: Path,
    setup: Setup,
    watch: Watch | None = None,
) -> list[Exhibit]:
    """Run experiments and write their results: CSV, PNG, SVG, and a report in HTML and Markdown.

    Parameters
    ----------
    experiments : sequence of Experiment
        What to run.
    out : Path
        Folder for the files. Cells that are there already are not computed again.
    setup : Setup
        Where the data sets are.
    watch : callable, optional
        Called before each cell.
    """
    store = Store(out / "cells")
    planned = {store.path(c): c for experiment in experiments for c in experiment.plan(setup)}
    for done, cell in enumerate(planned.values()):
        if watch is not None:
            watch(done, len(planned), cell)
        if cell not in store:
            store[cell] = cell.compute()
    exhibits = [experiment.show(setup, store.__getitem__) for experiment in experiments]
    for exhibit in exhibits:
        exhibit.write(out)
    write_reports(exhibits, environment(), out)
    return exhibits


def choose(names: Sequence[str]) -> list[Experiment]:
    """Return experiments by their names; "all" stands for all of them."""
    unknown = [name for name in names if name not in {"all", *EXPERIMENTS}]
    if unknown:
        raise ParameterError(
            f"no experiment is called {unknown[0]!r}; there are {', '.join(EXPERIMENTS)} and all"
        )
    if "all" in names:
        return list(EXPERIMENTS.values())
    return [EXPERIMENTS[name] for name in dict.fromkeys(names)]


def environment() -> Mapping[str, str]:
    """Return the machine and the versions, on which the numbers may depend."""
    packages = ("sonline", "numpy", "scipy", "scikit-learn")
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}",
        "Python": platform.python_version(),
        **{package: version(package) for package in packages},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"
