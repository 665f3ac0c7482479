"""What keeps a GPU busy: batches on alternating streams, and vectors copied back while the next are computed.

On a CPU all of this does nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from demitasse.cut import Cut
from demitasse.encoding.vectors import Vectors


class Lanes:
    """CUDA streams that batches alternate between.

    transformers looks at the attention mask before it launches anything, and so waits for everything launched on the
    same stream. With two streams it waits for the batch before the last one, and the GPU always has work.
    """

    def __init__(self, device: torch.device) -> None:
        new_stream: Any = torch.cuda.Stream
        self._device = device
        self._streams = [new_stream(device) for _ in range(2)] if device.type == "cuda" else []
        for stream in self._streams:
            stream.wait_stream(torch.cuda.current_stream(device))
        self._turn = 0

    def next(self) -> AbstractContextManager[Any]:
        """A stream to launch a batch on."""
        if not self._streams:
            return nullcontext()
        self._turn += 1
        return torch.cuda.stream(self._streams[self._turn % len(self._streams)])

    def join(self, parts: Mapping[int, Sequence[Tensor]]) -> None:
        """Have the current stream wait for all of them, and mark `parts` as used by it."""
        if not self._streams:
            return
        current = torch.cuda.current_stream(self._device)
        for stream in self._streams:
            current.wait_stream(stream)
        for tensor in chain.from_iterable(parts.values()):
            tensor.record_stream(current)


def to_host(vectors: Tensor) -> Tensor:
    """`vectors` on the host; from a GPU, the copy may still be under way (see `Launched`)."""
    if vectors.device.type != "cuda":
        return vectors.cpu()
    host = torch.empty(vectors.shape, dtype=vectors.dtype, pin_memory=True)
    return host.copy_(vectors, non_blocking=True)


class Launched:
    """Vectors on their way from `device` to the host."""

    def __init__(self, vectors: dict[Cut, Tensor], device: torch.device) -> None:
        self._vectors = vectors
        new_event: Any = torch.cuda.Event
        self._arrived = new_event() if device.type == "cuda" else None
        if self._arrived is not None:
            # Of this device: another may be the current one.
            self._arrived.record(torch.cuda.current_stream(device))

    def fetched(self) -> dict[Cut, Vectors]:
        """The vectors once they have arrived, in ordinary memory that the caller may keep."""
        if self._arrived is not None:
            self._arrived.synchronize()
        arrays = {cut: vectors.numpy() for cut, vectors in self._vectors.items()}
        return arrays if self._arrived is None else {cut: array.copy() for cut, array in arrays.items()}
