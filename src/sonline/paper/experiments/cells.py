"""The cells of an experiment, and results that survive an interruption.

An experiment is a list of cells (numbers to be computed, each with a key that says all it depends
on) and a way to show them. Cells that were computed before are read from files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import sonline
from sonline import _core
from sonline.files import replacing
from sonline.paper import datasets
from sonline.paper.datasets.transfer import sha256
from sonline.paper.experiments.conventions import PublishedRows, published_rows
from sonline.paper.experiments.exhibit import Exhibit
from sonline.paper.experiments.streams import ill_conditioned


@dataclass(frozen=True)
class Source:
    """Rows of a cell: what identifies them, their name in labels, and how to get them."""

    key: Mapping[str, Any]
    label: str
    rows: Callable[[], PublishedRows]


def ill_conditioned_source(
    figure: str, kappa: float, rounds: int, dimension: int, seed: int
) -> Source:
    """Return `ill_conditioned` rows for the cells of a figure."""
    key = {"kappa": kappa, "rounds": rounds, "dimension": dimension, "seed": seed}

    def published() -> PublishedRows:
        return PublishedRows(*ill_conditioned(kappa, rounds, dimension, seed), "")

    return Source(key, f"{figure} kappa={kappa} seed={seed}", published)


@dataclass(frozen=True)
class Cell:
    """A result to compute: its inputs, the text to show meanwhile, and the function."""

    key: Mapping[str, Any]
    label: str
    compute: Callable[[], Any]


class Experiment(Protocol):
    """A figure or a table."""

    @property
    def name(self) -> str:
        """Name on the command line and of the files."""

    def plan(self, setup: Setup) -> list[Cell]:
        """Return the cells that it needs."""

    def show(self, setup: Setup, value: Callable[[Cell], Any]) -> Exhibit:
        """Return tables and pictures made of the values of the cells."""


@dataclass
class Setup:
    """Where data sets are, and which are missing."""

    data_dir: Path | None = None
    fetch: bool = False
    _last: dict[str, PublishedRows] = field(default_factory=dict)

    def present(self, names: Iterable[str]) -> list[str]:
        """Return which data sets can be had."""
        return [n for n in names if self.fetch or datasets.locate(n, self.data_dir) is not None]

    def missing(self, names: Iterable[str]) -> list[str]:
        """Return which data sets cannot be had."""
        present = self.present(names := list(names))
        return [name for name in names if name not in present]

    def source(self, name: str) -> Source:
        """Return the rows of a data set behind the paper's numbers."""
        return Source(self.key(name), name, lambda: self._rows(name))

    def _rows(self, name: str) -> PublishedRows:
        """Return the rows of a data set; those of the last one are kept in memory.

        Their note also says how the file differs from the paper's, if it does.
        """
        if name not in self._last:
            self._last.clear()
            data = datasets.load(name, self.data_dir, download=self.fetch)
            rows = published_rows(data)
            if differences := data.differences():
                note = f"{rows.note}; " if rows.note else ""
                rows = replace(rows, note=f"{note}the file at hand has {'; '.join(differences)}")
            self._last[name] = rows
        return self._last[name]

    def key(self, name: str) -> dict[str, Any]:
        """Return values that identify the file of a data set without reading it."""
        path = datasets.locate(name, self.data_dir)
        size = path.stat().st_size if path else None
        return {"dataset": name, "file": path.name if path else None, "bytes": size}


class Store:
    """A folder of results, one file for each cell."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __contains__(self, cell: Cell) -> bool:
        return self.path(cell).exists()

    def __getitem__(self, cell: Cell) -> Any:
        return json.loads(self.path(cell).read_text())["value"]

    def __setitem__(self, cell: Cell, value: Any) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with replacing(self.path(cell)) as file:
            content = json.dumps({"key": self._key(cell), "value": value}, indent=1)
            file.write(f"{content}\n".encode())

    def path(self, cell: Cell) -> Path:
        """Return the file of a cell."""
        text = json.dumps(self._key(cell), sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        name = "".join(c if c.isalnum() or c in "-=." else "_" for c in cell.label)
        return self.folder / f"{name[:80]}-{digest}.json"

    @staticmethod
    def _key(cell: Cell) -> dict[str, Any]:
        return {"sonline": sonline.__version__, "build": _build(), **cell.key}


@cache
def _build() -> str:
    """Return values that identify the build of the kernel, on which results may depend."""
    return sha256(Path(_core.__file__))[:12]
