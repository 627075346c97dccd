"""The display of a training run: live on a terminal, a table elsewhere."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from sonline.evaluate import Point
from sonline.files import discard_output

CELL = 10  # characters of a label in the table

HEADER = (
    f"{'average':>9} {'since':>9} {'average':>9} {'row':>12} {'label':>10} {'predicted':>10} "
    f"{'features':>9}\n{'loss':>9} {'last':>9} {'error':>9} {'counter':>12} {'':>10} {'':>10} "
    f"{'in row':>9}"
)


class PlainConsole:
    """Standard error that is not a terminal: lines of text, without importing rich."""

    is_terminal = False

    def say(self, text: str) -> None:
        """Write a line; after a broken pipe, to nowhere."""
        try:
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()
        except BrokenPipeError:
            discard_output(sys.stderr)


def open_console() -> Any:
    """Return standard error; a broken pipe there does not end the training."""
    if not sys.stderr.isatty():
        return PlainConsole()
    from sonline.live import LastingConsole  # noqa: PLC0415 - rich is for terminals

    return LastingConsole()


def number(value: float | None) -> str:
    """Return a metric with six decimals; - for none.

    Examples
    --------
    >>> number(0.25), number(None)
    ('0.250000', '-')
    """
    return "-" if value is None or math.isnan(value) else f"{value:.6f}"


def in_a_cell(value: float, form: str) -> str:
    """Return a number in at most `CELL` characters: in this format, or with fewer digits.

    Examples
    --------
    >>> in_a_cell(0.25, ".4f"), in_a_cell(1000339.5, "g"), in_a_cell(-1e200 / 3, ".4f")
    ('0.2500', '1000339.5', '-3.33e+199')
    """
    forms = (form, *(f".{digits}g" for digits in range(8, 0, -1)))
    return next(text for each in forms if len(text := format(value, each)) <= CELL)


@dataclass
class Now:
    """What the live display shows."""

    rows: int = 0
    share: float | None = None
    loss: Point | None = None
    error: float | None = None
    features: int | None = None  # None if no model is trained
    sweeps: int = 0
    turn: int = 0
    passes: int = 1
    skipped: int = 0


@dataclass
class Display:
    """Shows progress on a console: live on a terminal, as a table elsewhere, or not at all.

    Parameters
    ----------
    console : PlainConsole or LastingConsole
        The output.
    silent : bool
        Show nothing.
    """

    console: Any
    silent: bool
    started: float = field(default_factory=time.monotonic)
    _live: AbstractContextManager[Any] | None = None
    _shown: tuple[Now, float] | None = None  # what is known, since when
    _first_rows: int = 0
    _first_share: float = 0.0
    _headed: bool = False

    @property
    def is_live(self) -> bool:
        """Whether there is a terminal to draw on."""
        return self.console.is_terminal and not self.silent

    def __enter__(self) -> Self:
        if self.is_live:
            from sonline.live import live  # noqa: PLC0415 - rich is for terminals

            self._live = live(self.console, self._facts)
            self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.__exit__(kind, error, trace)

    def say(self, text: str) -> None:
        """Print a line."""
        if not self.silent:
            self.console.say(text)

    def begin(self, rows: int, share: float | None) -> None:
        """Start the clock; an earlier run learned ``rows`` rows, the fraction ``share`` of all."""
        self.started = time.monotonic()
        self._first_rows, self._first_share = rows, share or 0.0

    def row(
        self, point: Point, error: float, label: str, predicted: Callable[[], str], features: int
    ) -> None:
        """Print a line of the table."""
        if self.silent or self.is_live:
            return
        if not self._headed:
            self.say(HEADER)
            self._headed = True
        average, since_last = self._losses(point)
        self.say(
            f"{average:>9} {since_last:>9} {number(error):>9} "
            f"{point.rows:>12} {label[:CELL]:>{CELL}} {predicted()[:CELL]:>{CELL}} {features:>9}"
        )

    def update(self, **facts: Any) -> None:
        """Show the fields of `Now`."""
        self._shown = Now(**facts), self.seconds()

    def seconds(self) -> float:
        """Return the time since `begin`."""
        return time.monotonic() - self.started

    def _losses(self, point: Point | None) -> tuple[str, str]:
        """Return the average loss, and the loss since the last line, as text."""
        if point is None:
            return number(None), number(None)
        return number(point.average), number(point.since_last)

    def _facts(self) -> dict[str, Any] | None:
        """Return the table to draw; None before the first batch."""
        if self._shown is None:
            return None
        now, since = self._shown
        average, since_last = self._losses(now.loss)
        details = {}
        if now.features is not None:
            details = {
                "loss": average,
                "since last": since_last,
                "error": number(now.error),
                "features": f"{now.features:,}",
                "sweeps": f"{now.sweeps:,}",
            }
        if now.passes > 1:
            details["pass"] = f"{now.turn + 1} of {now.passes}"
        if now.skipped:
            details["skipped"] = f"{now.skipped:,}"
        seconds = self.seconds()
        left, done = math.nan, (now.share or 0.0) - self._first_share
        if done > 0.005:
            left = max(0.0, since * (1 - self._first_share) / done - seconds)
        speed = (now.rows - self._first_rows) / since if since > 0 else 0.0
        return {
            "share": now.share,
            "done": [f"{now.rows:,} rows", f"{speed:,.0f} rows/s"],
            "left": "" if math.isnan(left) else f"{_clock(left)} left",
            "elapsed": f"{_clock(seconds)} elapsed",
            "details": details,
        }


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
