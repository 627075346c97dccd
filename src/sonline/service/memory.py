"""Memory of a process that runs for months: large blocks of malloc, and garbage collection."""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress

_MMAP_THRESHOLD = -3  # M_MMAP_THRESHOLD of malloc.h
_LARGE = 1 << 20  # bytes


def return_large_blocks() -> None:
    """Give large blocks back to the system when they are freed.

    Tables of ids are rebuilt every few hundred thousand events. By default glibc raises its
    threshold to the size of the first such table that is freed, takes the next ones from the heap,
    and blocks behind them keep the heap from shrinking. Without glibc this does nothing.
    """
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _LARGE)


def collect_less() -> None:
    """Exclude existing objects from garbage collection, and run it less often.

    Each request leaves a few objects until it is on disk, and no cycles. The collector would look
    at them, and at all modules and models, again and again: a third of the time of a request.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
