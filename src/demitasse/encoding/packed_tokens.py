"""Token ids of many texts, packed, and batches of them padded to one length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]


class Batch(NamedTuple):
    """Padded token ids and the mask of real tokens, both (B, T)."""

    ids: Ids
    mask: Ids


def ranges(starts: Ids, lengths: Ids) -> Ids:
    """The numbers from each of `starts` on, as many as its length says, one run after another.

    >>> ranges(np.array([7, 2]), np.array([3, 1])).tolist()
    [7, 8, 9, 2]
    """
    before = np.cumsum(lengths) - lengths
    numbers: Ids = np.repeat(starts - before, lengths)
    numbers += np.arange(len(numbers))
    return numbers


@dataclass(frozen=True, eq=False)
class PackedTokens:
    """Token ids of many texts in one array: text i has `lengths[i]` of them, starting at `starts[i]`.

    >>> packed = PackedTokens.of([[7, 8, 9], [7]])
    >>> packed.padded([1, 0], fill=0).ids.tolist()
    [[7, 0, 0], [7, 8, 9]]
    """

    ids: npt.NDArray[np.int32]
    starts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    whole_lengths: npt.NDArray[np.int64]  # before truncation

    def __len__(self) -> int:
        return len(self.lengths)

    @classmethod
    def of(cls, texts: Sequence[Sequence[int]], whole_lengths: Sequence[int] | None = None) -> PackedTokens:
        """The token ids of each text, packed; `whole_lengths` are those before truncation, if any was truncated."""
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        ids = np.fromiter(chain.from_iterable(texts), np.int32, int(lengths.sum()))
        whole = lengths if whole_lengths is None else np.array(whole_lengths, np.int64)
        return cls(ids, np.cumsum(lengths) - lengths, lengths, whole)

    @classmethod
    def joined(cls, parts: Sequence[PackedTokens]) -> PackedTokens:
        """Several of them as one, in order."""
        if len(parts) == 1:
            return parts[0]
        lengths = np.concatenate([part.lengths for part in parts])
        whole = np.concatenate([part.whole_lengths for part in parts])
        return cls(np.concatenate([part.ids for part in parts]), np.cumsum(lengths) - lengths, lengths, whole)

    def part(self, begin: int, end: int) -> PackedTokens:
        """The texts from `begin` to `end`."""
        if begin == 0 and end == len(self):
            return self
        first = int(self.starts[begin])
        ids = self.ids[first : int(self.starts[end - 1] + self.lengths[end - 1])]
        return PackedTokens(ids, self.starts[begin:end] - first, self.lengths[begin:end], self.whole_lengths[begin:end])

    def chosen(self, indices: Sequence[int] | npt.NDArray[np.int64]) -> PackedTokens:
        """Some of the texts, in this order; their ids stay where they are."""
        return PackedTokens(self.ids, self.starts[indices], self.lengths[indices], self.whole_lengths[indices])

    def ordered(self, order: npt.NDArray[np.int64]) -> PackedTokens:
        """All the texts in another order, their ids too."""
        lengths = self.lengths[order]
        ids = self.ids[ranges(self.starts[order], lengths)]
        return PackedTokens(ids, np.cumsum(lengths) - lengths, lengths, self.whole_lengths[order])

    @property
    def truncated(self) -> npt.NDArray[np.bool_]:
        """Whether each text was truncated."""
        return self.whole_lengths > self.lengths

    def without_empty(self, token: int) -> PackedTokens:
        """The same with `token` for texts that have none."""
        if self.lengths.all():
            return self
        ids = [self.ids_of(index) or [token] for index in range(len(self))]
        return PackedTokens.of(ids, np.maximum(self.whole_lengths, 1).tolist())

    def ids_of(self, index: int) -> list[int]:
        """The ids of one text."""
        start = self.starts[index]
        ids: list[int] = self.ids[start : start + self.lengths[index]].tolist()
        return ids

    def padded(self, chosen: Sequence[int], fill: int) -> Batch:
        """The token ids of the `chosen` texts, padded to the longest.

        Padding is always on the right, whatever side the tokenizer prefers: positions then count from the first real
        token and no real token of a decoder sees the padding, so a text's vector does not depend on its batch.
        """
        lengths = self.lengths[chosen]
        positions = np.arange(lengths.max())
        mask = positions < lengths[:, None]
        ids = self.ids[np.minimum(self.starts[chosen][:, None] + positions, len(self.ids) - 1)].astype(np.int64)
        ids[~mask] = fill
        return Batch(ids, mask.astype(np.int64))
