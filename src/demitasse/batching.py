"""How texts are put together: bounded windows, then batches of about as many tokens each. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def windows(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Runs of up to `size` items in their order: all that is ever held of an endless stream.

    >>> list(windows("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    remaining = iter(items)
    while window := list(islice(remaining, size)):
        yield window


def token_batches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Indices of `lengths` in batches whose padded size (rows x longest row) stays within `budget` tokens.

    Rows of similar length share a batch, so little is spent on padding. The longest come first: if a batch is too
    large for the memory, that shows at once and not after an hour. A row longer than the budget is a batch of its own.

    >>> token_batches([3, 9, 4, 8], budget=18)
    [[1, 3], [2, 0]]
    """
    batches: list[list[int]] = []
    room = 0
    # The index breaks ties, so the same lengths always give the same batches.
    for index in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        if room == 0:
            batches.append([])
            room = max(1, budget // max(1, lengths[index]))  # the first row of a batch is its longest
        batches[-1].append(index)
        room -= 1
    return batches
