"""The results of an experiment: text, tables, records for CSV, and a picture."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sonline.errors import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURE_ENDINGS = (".png", ".svg")
DOTS_PER_INCH = 110


@dataclass(frozen=True)
class Table:
    """A table of texts; the first column names the row."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""

    def markdown(self) -> str:
        """Return it as Markdown."""
        lines = [self.columns, ["---", *["---:"] * (len(self.columns) - 1)], *self.rows]
        text = "\n".join("| " + " | ".join(cell or " " for cell in line) + " |" for line in lines)
        return f"**{self.title}**\n\n{text}\n" if self.title else text + "\n"


@dataclass(frozen=True)
class Exhibit:
    """The result of an experiment.

    Attributes
    ----------
    name, title : str
        Name of its files, and heading.
    text : str
        What is shown and how it was made; blank lines separate paragraphs.
    records : sequence of mappings
        Numbers for CSV, one row each, with the same fields.
    tables : sequence of Table
        What a reader wants to see of them.
    draw : callable, optional
        Draws the picture into an empty figure.
    size : pair of float
        Width and height of the picture in inches.
    missing : sequence of str
        Data sets that were not there.
    """

    name: str
    title: str
    text: str
    records: Sequence[Mapping[str, Any]]
    tables: Sequence[Table] = ()
    draw: Callable[[Figure], None] | None = None
    size: tuple[float, float] = (7.0, 4.2)
    missing: Sequence[str] = field(default_factory=tuple)

    @property
    def paragraphs(self) -> list[str]:
        """The text cut at its blank lines."""
        return [" ".join(part.split()) for part in self.text.split("\n\n") if part.strip()]

    def csv(self) -> str:
        """Return the records as CSV."""
        out = io.StringIO()
        if self.records:
            writer = csv.DictWriter(out, list(self.records[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.records)
        return out.getvalue()

    def write(self, folder: Path) -> None:
        """Write the CSV and the picture as PNG and SVG."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.name}.csv").write_text(self.csv())
        if self.draw is not None:
            figure = new_figure(self.size)
            self.draw(figure)
            for ending in PICTURE_ENDINGS:
                figure.savefig(
                    folder / f"{self.name}{ending}",
                    dpi=DOTS_PER_INCH,
                    metadata={"Date": None} if ending == ".svg" else None,
                )


def new_figure(size: tuple[float, float]) -> Figure:
    """Return an empty figure; needs no display."""
    require("matplotlib", "plot")
    from matplotlib.figure import Figure  # noqa: PLC0415 - for pictures only

    return Figure(figsize=size, layout="constrained")
