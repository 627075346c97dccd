"""Shows partitions as they are finished."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from sonline.distributed.shards import Shard

COLUMNS = (
    TextColumn("round {task.fields[number]}"),
    BarColumn(),
    MofNCompleteColumn(),
    TextColumn("{task.fields[rows]:,} rows  loss {task.fields[loss]}"),
    TimeElapsedColumn(),
)


@contextmanager
def watching(
    wanted: bool, count: int, console: Console | None = None
) -> Iterator[Callable[[int, Shard], None]]:
    """Show partitions as they are finished: as a bar on a terminal, as lines elsewhere.

    Parameters
    ----------
    wanted : bool
        Whether to show anything.
    count : int
        Number of partitions; 0 if it is not known, which shows no bar.
    console : Console, optional
        The output; standard error by default.

    Yields
    ------
    callable
        The argument ``watch`` of `train_rounds`.
    """
    console = console or Console(stderr=True, highlight=False)
    rounds: defaultdict[int, Shard] = defaultdict(lambda: Shard(None))
    live = wanted and count > 0 and console.is_terminal
    bar = Progress(*COLUMNS, console=console, disable=not live)
    # Older versions of rich print an empty line for a bar that was never shown.
    with bar if live else nullcontext():
        shown = bar.add_task("", total=count, number=1, rows=0, loss="-")

        def watch(number: int, shard: Shard) -> None:
            so_far = rounds[number]
            so_far.figures += shard.figures
            rows = int(so_far.total("rows"))
            loss = f"{so_far.loss:.6f}" if rows else "-"
            done = len(so_far.figures)
            bar.update(shown, completed=done, number=number + 1, rows=rows, loss=loss)
            if wanted and not live:
                for part in shard.figures:
                    console.print(line(number, Shard(None, [part])), markup=False, soft_wrap=True)

        yield watch


def line(number: int, shard: Shard) -> str:
    """Return a line about a finished partition, the only one of its shard.

    Examples
    --------
    >>> from sonline.distributed.shards import Figures
    >>> line(0, Shard(None, [Figures(3, "part-3.svm", "0", rows=2, weight=2, loss=1, seconds=4)]))
    'round 1: part-3.svm: 2 rows, loss 0.500000, in 4.00 s on worker 0'
    """
    (part,) = shard.figures
    loss = f", loss {shard.loss:.6f}" if part.rows else ""
    bad = f", {part.skipped:,} bad rows skipped" if part.skipped else ""
    origin = f"in {part.seconds:.2f} s on worker {part.worker}"
    if part.resumed:
        origin = "from its checkpoint"
    return f"round {number + 1}: {part.name}: {part.rows:,} rows{loss}{bad}, {origin}"
