"""The display of a run, and the files that it writes while it runs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from sonline.evaluate import Point


class Watcher(Protocol):
    """Shows a run: `sonline.display.Display`, or `Silent`."""

    @property
    def is_live(self) -> bool:
        """Whether `update` is wanted after each batch."""

    def say(self, text: str) -> None:
        """Show a line."""

    def begin(self, rows: int, share: float | None) -> None:
        """Start the clock."""

    def row(
        self, point: Point, error: float, label: str, predicted: Callable[[], str], features: int
    ) -> None:
        """Show a point of the progressive loss."""

    def update(self, **facts: Any) -> None:
        """Show the state: the fields of `sonline.display.Now`."""


class Silent:
    """Shows nothing."""

    is_live = False

    def say(self, text: str) -> None:
        """Show nothing."""

    def begin(self, rows: int, share: float | None) -> None:
        """Show nothing."""

    def row(
        self, point: Point, error: float, label: str, predicted: Callable[[], str], features: int
    ) -> None:
        """Show nothing."""

    def update(self, **facts: Any) -> None:
        """Show nothing."""


class Files(AbstractContextManager[Any], Protocol):
    """Files that are written during a run: predictions and bad rows."""

    lengths: dict[str, int]

    def write(self, name: str, data: bytes) -> None:
        """Append to one of them."""

    def sync(self) -> None:
        """Flush what was written to the disk."""


class NoFiles(nullcontext[None]):
    """Writes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.lengths: dict[str, int] = {}

    def write(self, name: str, data: bytes) -> None:
        """Write nothing."""

    def sync(self) -> None:
        """Do nothing."""
