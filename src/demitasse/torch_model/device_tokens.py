"""Packed token ids on the device that uses them, and batches of them padded there.

The host only says which texts go together: it packs, the device pads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from demitasse.encoding.packed_tokens import PackedTokens


@dataclass(frozen=True, eq=False)
class ChosenTexts:
    """Some of the texts whose token ids lie on a device, and their lengths on both sides."""

    ids: Tensor  # of all texts, one after another
    starts: Tensor  # (M,) of the chosen ones
    lengths: Tensor  # (M,)
    known_lengths: npt.NDArray[np.int64]  # (M,), on the host

    @classmethod
    def of(cls, packed: PackedTokens, device: torch.device) -> ChosenTexts:
        """All texts of `packed`, brought to `device`."""
        starts, lengths = to_device(np.stack([packed.starts, packed.lengths]), device)
        return cls(to_device(packed.ids, device), starts, lengths, packed.lengths)

    def __len__(self) -> int:
        return len(self.known_lengths)

    @property
    def device(self) -> torch.device:
        """Where they are."""
        return self.ids.device


class DeviceTokens:
    """`texts` in batches of text indices, each with its longest text first."""

    def __init__(
        self, texts: PackedTokens | ChosenTexts, batches: Sequence[Sequence[int]], device: torch.device
    ) -> None:
        order = np.fromiter((index for batch in batches for index in batch), np.int64, len(texts))
        self._ends = np.cumsum([0, *map(len, batches)]).tolist()
        if isinstance(texts, ChosenTexts):
            self._ids, self._lengths = texts.ids, texts.known_lengths[order]
            chosen = to_device(order, device)
            self._texts = torch.stack([texts.starts[chosen], texts.lengths[chosen], chosen])
        else:
            self._ids, self._lengths = to_device(texts.ids, device), texts.lengths[order]
            self._texts = to_device(np.stack([texts.starts[order], self._lengths, order]), device)

    def __len__(self) -> int:
        """How many batches there are."""
        return len(self._ends) - 1

    @property
    def order(self) -> Tensor:
        """The index of each text, one batch after another."""
        return self._texts[2]

    def batch(self, number: int, fill: int, multiple: int = 1) -> tuple[Tensor, Tensor, bool]:
        """The ids of a batch and their mask, both (B, T), and whether anything is padded (always on the right).

        T is a multiple of `multiple`.
        """
        inside = slice(*self._ends[number : number + 2])
        longest = -(-int(self._lengths[inside.start]) // multiple) * multiple
        starts, lengths, _ = self._texts[:, inside, None]
        positions = torch.arange(longest, device=self._ids.device)
        mask = positions < lengths
        ids = self._ids[(starts + positions).clamp_(max=len(self._ids) - 1)].long()
        return ids.masked_fill_(~mask, fill), mask.long(), bool((self._lengths[inside] < longest).any())


def to_device(values: npt.NDArray[np.integer], device: torch.device) -> Tensor:
    """`values` on `device`; to a GPU, they may still be on their way."""
    tensor = torch.from_numpy(values)
    # From pinned memory, which the GPU copies while this thread goes on.
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)
