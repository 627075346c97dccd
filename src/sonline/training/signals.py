"""Signals that end a run cleanly: the model is saved first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

CTRL_C = (signal.SIGINT,)
# "docker stop", Kubernetes, SLURM and a closed terminal send the last two.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruptible(
    handle: Callable[[signal.Signals], None], signals: Sequence[signal.Signals] = CTRL_C
) -> Iterator[None]:
    """End the run cleanly at the first of these signals, and at once at the second.

    Signals that are ignored (by nohup) stay ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {sig: signal.getsignal(sig) for sig in signals}
    taken = [sig for sig in signals if before[sig] is not signal.SIG_IGN]

    def first(received: int, _: Any) -> None:
        handle(signal.Signals(received))
        for sig in taken:
            at_once = signal.default_int_handler if sig == signal.SIGINT else signal.SIG_DFL
            signal.signal(sig, at_once)

    for sig in taken:
        signal.signal(sig, first)
    try:
        yield
    finally:
        for sig in taken:
            signal.signal(sig, before[sig])
