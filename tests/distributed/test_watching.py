"""What is shown of partitions that are finished."""

import io

from rich.console import Console

from sonline.distributed.shards import Figures, Shard
from sonline.distributed.watching import watching


def shard(number, **figures):
    return Shard(None, [Figures(number, f"partition {number}", "1", **figures)])


def shown(wanted=True, count=3, **settings):
    """Return what three partitions are shown as."""
    console = Console(file=io.StringIO(), width=100, highlight=False, **settings)
    with watching(wanted, count, console) as watch:
        watch(0, shard(1, rows=10, weight=20.0, loss=5.0, seconds=0.5))
        watch(0, shard(0, rows=0, skipped=7))
        watch(0, shard(2, rows=1000, weight=30.0, loss=5.0, resumed=True))
        watch(1, shard(0, rows=5, weight=5.0, loss=1.0))
    return console.file.getvalue()


def test_lines():
    assert shown().splitlines() == [
        "round 1: partition 1: 10 rows, loss 0.250000, in 0.50 s on worker 1",
        "round 1: partition 0: 0 rows, 7 bad rows skipped, in 0.00 s on worker 1",
        "round 1: partition 2: 1,000 rows, loss 0.166667, from its checkpoint",
        "round 2: partition 0: 5 rows, loss 0.200000, in 0.00 s on worker 1",
    ]
    assert shown(wanted=False) == ""


def test_a_bar_on_a_terminal_if_it_is_known_how_many():
    output = shown(force_terminal=True, _environ={"TERM": "xterm"})
    assert "round 2" in output
    assert "1/3" in output
    assert "5 rows  loss 0.200000" in output
    assert "on worker" not in output
    assert shown(wanted=False, force_terminal=True) == ""
    assert "on worker" in shown(count=0, force_terminal=True)
