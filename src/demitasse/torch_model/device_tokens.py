"""Packed token ids on the device that uses them, and batches of them padded there.

The host only says which texts go together: it packs, the device pads.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from demitasse.encoding.packed_tokens import PackedTokens


class DeviceTokens:
    """`packed` on `device`, in batches of text indices, each with its longest text first."""

    def __init__(self, packed: PackedTokens, batches: Sequence[Sequence[int]], device: torch.device) -> None:
        order = np.fromiter((index for batch in batches for index in batch), np.int64, len(packed))
        self._ends = np.cumsum([0, *map(len, batches)]).tolist()
        self._lengths = packed.lengths[order]
        self._ids = _to_device(packed.ids, device)
        self._texts = _to_device(np.stack([packed.starts[order], self._lengths, order]), device)

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


def _to_device(values: npt.NDArray[np.integer], device: torch.device) -> Tensor:
    tensor = torch.from_numpy(values)
    # From pinned memory, which the GPU copies while this thread goes on.
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)
