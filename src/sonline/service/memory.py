"""How malloc treats large blocks in a process that runs for months."""

from __future__ import annotations

import ctypes
from contextlib import suppress

_MMAP_THRESHOLD = -3  # M_MMAP_THRESHOLD of malloc.h
_LARGE = 1 << 20  # bytes


def return_large_blocks() -> None:
    """Give large blocks back to the system when they are freed.

    Tables of ids are rebuilt every few hundred thousand events. By default glibc raises its
    threshold to the size of the first such table that is freed, takes the next ones from the heap,
    and what lies behind them keeps the heap from shrinking. Elsewhere this does nothing.
    """
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _LARGE)
