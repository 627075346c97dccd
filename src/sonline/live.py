"""The live display, drawn by rich; imported only on a terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sonline.files import discard_output


class LastingConsole(Console):
    """Standard error on a terminal; a broken pipe there does not end the training."""

    def __init__(self) -> None:
        super().__init__(stderr=True, highlight=False)

    def say(self, text: str) -> None:
        """Write a line."""
        self.print(text, markup=False, highlight=False, soft_wrap=True)

    def on_broken_pipe(self) -> None:
        """Write to nowhere from now on."""
        self.quiet = True
        discard_output(self.file)


def live(console: Console, facts: Callable[[], dict[str, Any] | None]) -> Live:
    """Return a display that redraws the facts several times a second."""
    return Live(console=console, refresh_per_second=8, get_renderable=lambda: _drawn(facts()))


def _drawn(facts: dict[str, Any] | None) -> RenderableType:
    if facts is None:
        return Text("")
    head = Table.grid(padding=(0, 2))
    cells: list[RenderableType] = [Text(words) for words in facts["done"]]
    if facts["share"] is not None:
        cells = [
            ProgressBar(total=1.0, completed=facts["share"], width=24),
            Text(f"{100 * facts['share']:3.0f} %"),
            *cells,
            Text(facts["left"]),
        ]
    head.add_row(*cells, Text(facts["elapsed"]))
    details = [Text.assemble((f"{k} ", "dim"), v) for k, v in facts["details"].items()]
    return Group(head, Text("  ").join(details)) if details else head
