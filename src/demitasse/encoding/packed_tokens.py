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
    """Padded rows of token ids and where the real tokens are, both (B, T)."""

    ids: Ids
    mask: Ids


@dataclass(frozen=True, eq=False)
class PackedTokens:
    """Token ids of many texts one after the other: text i has `lengths[i]` of them from `starts[i]` on.

    >>> rows = PackedTokens.of([[7, 8, 9], [7]])
    >>> rows.padded([1, 0], fill=0).ids.tolist()
    [[7, 0, 0], [7, 8, 9]]
    """

    ids: npt.NDArray[np.int32]
    starts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.lengths)

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> PackedTokens:
        """Token ids given as lists."""
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        ids = np.fromiter(chain.from_iterable(rows), np.int32, int(lengths.sum()))
        return cls(ids, np.cumsum(lengths) - lengths, lengths)

    @classmethod
    def joined(cls, parts: Sequence[PackedTokens]) -> PackedTokens:
        """Several of them as one."""
        if len(parts) == 1:
            return parts[0]
        lengths = np.concatenate([part.lengths for part in parts])
        return cls(np.concatenate([part.ids for part in parts]), np.cumsum(lengths) - lengths, lengths)

    def without_empty(self, token: int) -> PackedTokens:
        """The same with `token` in rows that have none."""
        if self.lengths.all():
            return self
        return PackedTokens.of([self.row(index) or [token] for index in range(len(self))])

    def row(self, index: int) -> list[int]:
        """The ids of one text."""
        start = self.starts[index]
        ids: list[int] = self.ids[start : start + self.lengths[index]].tolist()
        return ids

    def padded(self, chosen: Sequence[int], fill: int) -> Batch:
        """The rows of `chosen` texts, all as long as the longest.

        Always padded on the right, whatever side the tokenizer prefers: positions then count from the first real
        token and no real token of a decoder sees the padding, so a text's vector does not depend on its batch.
        """
        lengths = self.lengths[chosen]
        places = np.arange(lengths.max())
        mask = places < lengths[:, None]
        ids = self.ids[np.minimum(self.starts[chosen][:, None] + places, len(self.ids) - 1)].astype(np.int64)
        ids[~mask] = fill
        return Batch(ids, mask.astype(np.int64))
