"""Which texts were there before, told by their hashes: 16 bytes of memory for each text, however long it is."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

_Words = npt.NDArray[np.uint64]
_Run = tuple[_Words, _Words]  # the two halves of each hash, sorted by the first


class DistinctTexts:
    """A growing set of texts.

    Hashes have 128 bits, so that no two of a billion texts agree by chance.

    >>> texts = DistinctTexts()
    >>> texts.add(["a ristretto", "a lungo", "a ristretto"]), texts.add(["a lungo", "a mug"])
    ([True, True, False], [False, True])
    """

    def __init__(self) -> None:
        self._runs: list[_Run] = []  # each at least twice as long as the next

    def add(self, texts: Sequence[str]) -> list[bool]:
        """Whether each text is new; of equal ones the first is."""
        digests = b"".join([blake2b(text.encode(), digest_size=16).digest() for text in texts])
        halves = np.frombuffer(digests, "<u8").reshape(-1, 2)
        order = np.argsort(halves[:, 0], kind="stable")  # so that the first of equal ones stays first
        high, low = halves[order, 0], halves[order, 1]
        fresh = np.ones(len(texts), bool)
        fresh[1:] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
        for run in self._runs:
            fresh &= ~_found(high, low, run)
        self._keep((high[fresh], low[fresh]))
        new = np.empty(len(texts), bool)
        new[order] = fresh
        return [bool(one) for one in new]

    def _keep(self, run: _Run) -> None:
        while self._runs and len(self._runs[-1][0]) < 2 * len(run[0]):
            other = self._runs.pop()
            high, low = np.concatenate([other[0], run[0]]), np.concatenate([other[1], run[1]])
            order = np.argsort(high, kind="stable")
            run = high[order], low[order]
        if len(run[0]):
            self._runs.append(run)


def _found(high: _Words, low: _Words, run: _Run) -> npt.NDArray[np.bool_]:
    places = np.minimum(np.searchsorted(run[0], high), len(run[0]) - 1)
    same: npt.NDArray[np.bool_] = (run[0][places] == high) & (run[1][places] == low)
    return same
