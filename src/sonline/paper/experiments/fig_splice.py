"""Error of Oja-SON on splice against the rows seen, for several sketch sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sonline.paper.experiments.cells import Cell, Setup
from sonline.paper.experiments.conventions import STEPS, Method
from sonline.paper.experiments.exhibit import Exhibit
from sonline.paper.experiments.searches import best, search_cell
from sonline.paper.experiments.table_error import DIAGONAL

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DATASET = "splice"

TEXT = """
With diagonal adaptation, best step size for each. In the paper, whose figure has no numbers, m = 1
is already far better than m = 0. Here at the end: {last}.
"""


@dataclass(frozen=True)
class FigSplice:
    """Sketches of these sizes, with diagonal adaptation."""

    sizes: Sequence[int] = (0, 1, 5, 10)
    every: int = 20
    name: str = "fig-splice"

    def _cell(self, setup: Setup, size: int) -> Cell:
        sketch = {"sketch": "oja" if size else "none", "sketch_size": size}
        method = Method(label=f"m = {size}", changes=sketch | DIAGONAL)

        return search_cell(setup.source(DATASET), method, every=self.every)

    def plan(self, setup: Setup) -> list[Cell]:
        """Return a cell for each size."""
        return [self._cell(setup, size) for _ in setup.present([DATASET]) for size in self.sizes]

    def show(self, setup: Setup, value: Callable[[Cell], Any]) -> Exhibit:
        """Return the curves."""
        searches = {
            size: value(self._cell(setup, size))
            for _ in setup.present([DATASET])
            for size in self.sizes
        }
        records = []
        for size, search in searches.items():
            step = best(search).step
            mistakes = search["mistakes"][STEPS.index(step)]
            for rows, wrong in zip(search["marks"], mistakes, strict=True):
                records.append(
                    {"sketch_size": size, "rows": rows, "error": wrong / rows, "step": step}
                )

        def draw(figure: Figure) -> None:
            axes = figure.subplots()
            for m in searches:
                line = [r for r in records if r["sketch_size"] == m]
                axes.plot([r["rows"] for r in line], [r["error"] for r in line], label=f"m = {m}")
            axes.set(xlabel="rows seen", ylabel="error rate so far", ylim=(0, None))
            axes.legend()

        last = {size: f"{best(search).rate:.3f}" for size, search in searches.items()}
        return Exhibit(
            self.name,
            "Error rates on splice for several sketch sizes",
            TEXT.format(last=", ".join(f"m = {m}: {error}" for m, error in last.items())),
            records,
            draw=draw if records else None,
            missing=setup.missing([DATASET]),
        )
