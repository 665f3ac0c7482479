"""How texts are put together: bounded windows, then batches of about as many tokens each. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence


def windows(texts: Iterable[str], size: int, characters: int = 1 << 60) -> Iterator[list[str]]:
    """Runs of up to `size` texts and about `characters` in their order: all that is ever held of an endless stream.

    >>> list(windows(["a", "b", "c", "d", "e"], 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    >>> list(windows(["four", "more", "a", "b"], 9, characters=8))
    [['four', 'more'], ['a', 'b']]
    """
    window: list[str] = []
    held = 0
    for text in texts:
        window.append(text)
        held += len(text)
        if len(window) >= size or held >= characters:
            yield window
            window, held = [], 0
    if window:
        yield window


def token_batches(lengths: Sequence[int], budget: int, least: int = 0) -> list[list[int]]:
    """Indices of `lengths` in batches whose padded size (rows x longest row) stays within `budget` tokens.

    Rows of similar length share a batch, so little is spent on padding: once a batch has `least` tokens, a row shorter
    than four fifths of its longest begins another (`least=0` leaves that to the budget). The longest come first: if a
    batch is too large for the memory, that shows at once and not after an hour. A row longer than the budget is a
    batch of its own.

    >>> token_batches([3, 9, 4, 8], budget=18)
    [[1, 3], [2, 0]]
    >>> token_batches([3, 9, 4, 8], budget=99, least=10)
    [[1, 3], [2, 0]]
    """
    batches: list[list[int]] = []
    room = longest = 0
    # The index breaks ties, so the same lengths always give the same batches.
    for index in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        length = lengths[index]
        uneven = least and 5 * length < 4 * longest and len(batches[-1]) * longest >= least
        if room == 0 or uneven:
            batches.append([])
            longest = max(1, length)  # the first row of a batch is its longest
            room = max(1, budget // longest)
        batches[-1].append(index)
        room -= 1
    return batches
