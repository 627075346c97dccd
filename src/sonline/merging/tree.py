"""The tree in which many learners are merged: its shape depends on their number only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

FAN_IN = 4  # merged at once: O((FAN_IN m)²) per feature, and a tree of depth log₄ K

T = TypeVar("T")


def groups(items: Sequence[T], size: int = FAN_IN) -> list[Sequence[T]]:
    """Return the items of one level of the tree by the node of the next that they belong to.

    Examples
    --------
    >>> groups("abcdef")
    ['abcd', 'ef']
    """
    return [items[first : first + size] for first in range(0, len(items), size)]


def merge_tree(items: Sequence[T], merge: Callable[[Sequence[T]], T]) -> T:
    """Return the root of the tree over one or more items; ``merge`` makes a node of 2 to `FAN_IN`.

    Examples
    --------
    >>> merge_tree("abcdef", lambda some: "(" + "".join(some) + ")")
    '((abcd)(ef))'
    """
    level = list(items)
    while len(level) > 1:
        level = [group[0] if len(group) == 1 else merge(group) for group in groups(level)]
    return level[0]
