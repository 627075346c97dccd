"""Learning records of the log, at a start and where another process writes them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from itertools import islice

from sonline.service.bodies import Rows
from sonline.service.records import AS_LINES, LEARN, Record
from sonline.service.versions import Live, Part, grouped

_GROUPS = 64  # groups of records that are learned at a time


def learn_records(
    records: Iterable[Record],
    versions: Collection[Live],
    decoded: Callable[[Sequence[Record]], Rows | None],
) -> Iterator[tuple[list[Part], int]]:
    """Learn records, some thousand rows at a time; each version begins where it is.

    ``decoded`` returns the rows of records that belong together; None if they have no labels. After
    each time, yield what was learned and the number of the next event.
    """
    groups = together(records, {live.next for live in versions})
    while several := list(islice(groups, _GROUPS)):
        decoded_groups = [(group[0].seq, decoded(group)) for group in several]
        parts = [Part(seq, rows) for seq, rows in decoded_groups if rows is not None]
        end = several[-1][-1].end
        for live in versions:
            live.learn(parts)
            live.next = max(live.next, end)
        yield parts, end


def together(records: Iterable[Record], breaks: Container[int]) -> Iterator[list[Record]]:
    """Yield records that can be decoded and learned with one call; it saves most of the time.

    A record whose first event is in ``breaks`` begins another group.
    """
    return grouped(
        records,
        lambda record: record.count,
        lambda record: (record.kind, record.encoding) == (LEARN, AS_LINES),
        lambda before, record: before.end == record.seq and record.seq not in breaks,
    )
