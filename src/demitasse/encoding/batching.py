"""How texts are fed to a device: bounded windows, then batches of about as many tokens each. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Pace:
    """How texts are fed to a device: enough at a time to keep it busy, not so many that its memory fills."""

    window: int  # texts in memory at a time
    characters: int  # of those texts, about
    budget: int  # padded tokens in a batch
    least: int = 0  # tokens a batch must have before a much shorter text starts another instead of being padded
    first: int = 1  # the first window is this part of the others, and each one twice the last: the device starts soon


# By what runs the model and the kind of device; `None` is any other kind.
_PACES: dict[tuple[str, str | None], Pace] = {
    ("torch", "cuda"): Pace(65536, 1 << 22, 131072, 32768, first=8),
    ("torch", "mps"): Pace(4096, 1 << 20, 16384, 4096),
    ("torch", None): Pace(4096, 1 << 24, 2048),
    # Blocks have two windows in memory: one is tokenised while the other is computed.
    ("blocks", "cpu"): Pace(2048, 1 << 22, 512),  # the activations of a batch fit the cache of a core
    ("blocks", None): Pace(2048, 1 << 22, 16384),
}


def pace(runtime: str, device_kind: str) -> Pace:
    """How to feed a model that runs on `runtime` and `device_kind`, as `Encoder` names them.

    >>> pace("blocks", "cpu").budget, pace("torch", "xpu").budget
    (512, 2048)
    """
    return _PACES.get((runtime, device_kind)) or _PACES[runtime, None]


def windows(texts: Iterable[str], size: int, characters: int = 1 << 60, first: int = 1) -> Iterator[list[str]]:
    """Runs of up to `size` texts and about `characters`, in order: all of an endless stream that is ever in memory.

    The first run is one `first`-th as large, the second twice that, and so on up to the full size.

    >>> list(windows(["a", "b", "c", "d", "e"], 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    >>> list(windows(["four", "more", "a", "b"], 9, characters=8))
    [['four', 'more'], ['a', 'b']]
    >>> [len(run) for run in windows("abcdefghijkl", 4, first=4)]
    [1, 2, 4, 4, 1]
    """
    window: list[str] = []
    count = 0
    for text in texts:
        window.append(text)
        count += len(text)
        if len(window) * first >= size or count * first >= characters:
            yield window
            window, count, first = [], 0, max(1, first // 2)
    if window:
        yield window


def token_batches(lengths: Sequence[int], budget: int, least: int = 0) -> list[list[int]]:
    """Indices of `lengths` in batches whose padded size (texts x longest text) stays within `budget` tokens.

    Texts of similar length share a batch, so little is spent on padding: once a batch has `least` tokens, a text
    shorter than four fifths of its longest starts another (`least=0` leaves that to the budget). The longest come
    first: a batch too large for memory fails at once and not after an hour. A text longer than the budget is a batch
    of its own.

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
            longest = max(1, length)  # the first text of a batch is its longest
            room = max(1, budget // longest)
        batches[-1].append(index)
        room -= 1
    return batches
