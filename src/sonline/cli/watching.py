"""Progress of commands that read a stream, where there is a terminal to show it on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sonline.streams import Batch, Stream

if TYPE_CHECKING:
    from sonline.display import Display


@contextmanager
def watched(stream: Stream, *, shown: bool) -> Iterator[Iterator[Batch]]:
    """Yield the batches of a stream, and show the number of rows read on a terminal."""
    if not (shown and sys.stderr.isatty()):
        yield iter(stream)
        return
    from sonline.display import Display, open_console  # noqa: PLC0415 - seldom wanted

    with Display(open_console(), silent=False) as display:
        yield _counted(stream, display)


def _counted(stream: Stream, display: Display) -> Iterator[Batch]:
    display.begin(0, None)
    rows = skipped = 0
    for batch in stream:
        yield batch
        rows += len(batch)
        skipped += batch.skipped
        display.update(rows=rows, share=stream.share(), skipped=skipped)
