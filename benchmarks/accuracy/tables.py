"""Tables of packages: the list is tables.toml."""

from __future__ import annotations

import bz2
import functools
import gzip
import io
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.accuracy import r_data
from benchmarks.accuracy.encode import columns_of, order, signs
from benchmarks.accuracy.sources import Sources
from benchmarks.accuracy.stream import MOST_ROWS, Rows, Stream


@dataclass(frozen=True)
class Table:
    """A line of tables.toml, whose head describes the fields."""

    source: str
    name: str
    file: str
    target: str
    kind: str
    group: str
    positive: tuple[str, ...] = ()
    above: float | None = None
    drop: tuple[str, ...] = ()
    as_ids: tuple[str, ...] = ()
    sort: str | None = None
    order: bool = False
    log: bool = False
    rows: int = MOST_ROWS
    levels: int = 400

    def rows_of(self, frame: pd.DataFrame) -> Rows:
        """Return the rows and labels of a data frame."""
        if self.sort is not None:
            frame = frame.sort_values(self.sort, kind="stable")
        frame = frame[frame[self.target].notna()]
        in_order = self.order or self.sort is not None
        frame = frame.iloc[(np.arange(len(frame)) if in_order else order(len(frame)))[: self.rows]]
        frame = frame.reset_index(drop=True)
        y = self._labels(frame[self.target])
        frame = frame.drop(columns=[self.target, *self.drop])
        for name in self.as_ids:
            frame[name] = "#" + frame[name].astype(str)
        return columns_of(frame, self.levels), y

    def _labels(self, column: pd.Series) -> np.ndarray:
        if self.kind == "regression" or self.above is not None:
            y = pd.to_numeric(column).to_numpy(float)
            if self.above is not None:
                return signs(y > self.above)
            return np.log10(1 + y) if self.log else y
        text = column.astype(str).str.strip().str.removesuffix(".0")
        if self.kind == "binary":
            return signs(text.isin(self.positive))
        return np.unique(text, return_inverse=True)[1].astype(float)


def listed() -> list[Table]:
    """Return the tables of tables.toml."""
    content = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return [
        Table(source=source, **{k: tuple(v) if isinstance(v, list) else v for k, v in line.items()})
        for source, section in content.items()
        for line in section["tables"]
    ]


def streams(sources: Sources) -> Iterator[Stream]:
    for table in listed():
        yield Stream(
            table.name,
            table.kind,
            table.group,
            functools.partial(_load, sources, table),
            table.source,
        )


def _load(sources: Sources, table: Table) -> Rows:
    return table.rows_of(frame(sources, table.source, table.file))


def frame(sources: Sources, source: str, file: str) -> pd.DataFrame:
    """Return a table of an archive: of R, of Orange (.tab) or comma-separated."""
    if source.startswith("deb:"):
        return pd.DataFrame(r_data.read(sources, source, file))
    content = sources.read(source, file)
    if file.endswith(".tab"):
        return orange(content.decode("utf-8", "replace"))
    if file.endswith(".data"):  # numbers, and the labels in a file beside it
        numbers = pd.read_csv(io.BytesIO(content), sep=r"\s+", header=None)
        labels = sources.read(source, file.removesuffix(".data") + ".labels").decode().split()
        return numbers.rename(columns=str).assign(label=labels)
    if file.endswith((".gz", ".bz2")):
        content = (gzip if file.endswith(".gz") else bz2).decompress(content)
    return pd.read_csv(io.BytesIO(content), low_memory=False)


def orange(text: str) -> pd.DataFrame:
    """Return a table of Orange: names, types and roles of the columns, then the rows."""
    names, _, _, *lines = text.replace("\r", "").split("\n")
    head = names.split("\t")
    rows = [line.split("\t") for line in lines if line.count("\t") == len(head) - 1]
    return pd.DataFrame(rows, columns=head).replace({"?": None, "": None})
