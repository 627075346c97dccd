"""The time of events."""

from __future__ import annotations

import time


class Clock:
    """Seconds since 1970 that never go back, whatever happens to the clock of the system."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def begin(self, last: float) -> None:
        """Do not return times before this one."""
        self._offset = max(self._offset, last - time.monotonic())

    def now(self) -> float:
        """Return the time."""
        return time.monotonic() + self._offset
