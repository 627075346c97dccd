"""Group commit: how many requests are written to disk together."""

from __future__ import annotations

_GATHER = 0.005  # seconds that a group waits at most for clients that are about to send again
_LARGE_GROUP = 64  # requests that are enough for a group


class Gathering:
    """How many requests a group waits for (group commit).

    Clients that were answered with the group before are about to send again, so a group waits for
    them, for at most as long as it takes to write one. A client that is alone waits for nobody. If
    the clients do not come, the next groups do not wait: one, then two, four and so on.

    Examples
    --------
    >>> gathering = Gathering()
    >>> gathering.written(requests=8, seconds=0.002)
    >>> gathering.expected(), gathering.seconds
    (8, 0.002)
    >>> gathering.ended(complete=False)
    >>> gathering.expected(), gathering.expected()
    (1, 8)
    """

    def __init__(self) -> None:
        self.seconds = 0.0  # that the next group may wait
        self._requests = 1  # in the group before, and in the queue when it was written
        self._skip = self._skipped = 0  # groups that do not wait

    def written(self, requests: int, seconds: float) -> None:
        """Note how many requests there were when a group was written, and how long that took."""
        self._requests = min(requests, _LARGE_GROUP)
        self.seconds = min(seconds, _GATHER)

    def expected(self) -> int:
        """Return how many requests the next group waits for."""
        if self._skipped < self._skip:
            self._skipped += 1
            return 1
        return self._requests

    def ended(self, complete: bool) -> None:
        """Note whether these requests arrived."""
        self._skip = 0 if complete else min(max(1, 2 * self._skip), _LARGE_GROUP)
        self._skipped = 0
