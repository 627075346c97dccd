"""Error of Oja-SON on splice against the rows seen, for several sketch sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sonline.paper.experiments.cells import Cell, Setup
from sonline.paper.experiments.conventions import STEPS, Method
from sonline.paper.experiments.exhibit import Exhibit
from sonline.paper.experiments.progressive import run
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

        def compute() -> dict[str, Any]:
            rows = setup.rows(DATASET)
            marks = sorted({*range(self.every, rows.y.size, self.every), int(rows.y.size)})
            runs = run(rows.X, rows.y, [method.settings(1 / step) for step in STEPS], marks)
            best = min(range(len(runs)), key=lambda i: runs[i].total)
            return {
                "marks": marks,
                "mistakes": runs[best].mistakes[: len(marks)],
                "step": STEPS[best],
            }

        key = {
            "what": "curve",
            **setup.key(DATASET),
            "settings": method.settings(0.0),
            "steps": list(STEPS),
            "every": self.every,
        }
        return Cell(key, f"{DATASET} curve {method.label}", compute)

    def plan(self, setup: Setup) -> list[Cell]:
        """Return a cell for each size."""
        return [self._cell(setup, size) for size in self.sizes] if setup.has(DATASET) else []

    def show(self, setup: Setup, value: Callable[[Cell], Any]) -> Exhibit:
        """Return the curves."""
        curves = {m: value(self._cell(setup, m)) for m in self.sizes} if setup.has(DATASET) else {}
        records = [
            {"sketch_size": m, "rows": rows, "error": wrong / rows, "step": curve["step"]}
            for m, curve in curves.items()
            for rows, wrong in zip(curve["marks"], curve["mistakes"], strict=True)
        ]

        def draw(figure: Figure) -> None:
            axes = figure.subplots()
            for m in curves:
                line = [r for r in records if r["sketch_size"] == m]
                axes.plot([r["rows"] for r in line], [r["error"] for r in line], label=f"m = {m}")
            axes.set(xlabel="rows seen", ylabel="error rate so far", ylim=(0, None))
            axes.legend()

        last = {m: f"{c['mistakes'][-1] / c['marks'][-1]:.3f}" for m, c in curves.items()}
        return Exhibit(
            self.name,
            "Error rates on splice for several sketch sizes",
            TEXT.format(last=", ".join(f"m = {m}: {error}" for m, error in last.items())),
            records,
            draw=draw if curves else None,
            missing=[] if curves else [DATASET],
        )
