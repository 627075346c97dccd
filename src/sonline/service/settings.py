"""The settings of an engine."""

from __future__ import annotations

from dataclasses import dataclass

SLICE = 512  # rows that are learned at a time, while predictions wait


@dataclass(frozen=True)
class Settings:
    """Sizes in bytes, times in seconds."""

    label_seconds: float = 86400.0  # how long a row waits for its label
    label_bytes: int = 256 << 20  # of all rows that wait
    remembered: int = 200_000  # ids that are recognized as duplicates
    classes: int = 1000
    versions: int = 20  # of a model; each is learned and written with every snapshot
    backlog: int = 100_000  # events that may wait to be learned
    backlog_bytes: int = 64 << 20
    group_bytes: int = 8 << 20  # of events that are written together
    snapshot_events: int = 1_000_000
    snapshot_seconds: float = 300.0
    keep_bytes: int = 10 << 30  # of the file of a model
    keep_seconds: float | None = None
    models: int = 1000
    idle_seconds: float = 60.0  # after which a model closes its files
