"""What keeps a GPU busy: batches on streams in turn, and vectors fetched while the next are computed.

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
    """CUDA streams that batches take in turn.

    transformers looks at the attention mask before it launches anything, and so waits for all that was launched on the
    same stream. With two streams it waits for the batch before the last, and the GPU is never without work.
    """

    def __init__(self, device: torch.device) -> None:
        stream: Any = torch.cuda.Stream
        self._streams = [stream(device) for _ in range(2)] if device.type == "cuda" else []
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
        """Have the current stream wait for all, and say that it goes on with `parts`."""
        for stream in self._streams:
            torch.cuda.current_stream().wait_stream(stream)
        if self._streams:
            for tensor in chain.from_iterable(parts.values()):
                tensor.record_stream(torch.cuda.current_stream())


def to_host(rows: Tensor) -> Tensor:
    """`rows`, on their way from the GPU if that is where they are."""
    if rows.device.type != "cuda":
        return rows.cpu()
    host = torch.empty(rows.shape, dtype=rows.dtype, pin_memory=True)
    return host.copy_(rows, non_blocking=True)


class Launched:
    """Vectors on their way to the host."""

    def __init__(self, vectors: dict[Cut, Tensor]) -> None:
        self._vectors = vectors
        event: Any = torch.cuda.Event
        self._arrived = event() if torch.cuda.is_available() else None
        if self._arrived is not None:
            self._arrived.record()

    def fetched(self) -> dict[Cut, Vectors]:
        """The vectors once they have arrived, in memory that anybody may keep."""
        if self._arrived is not None:
            self._arrived.synchronize()
        return {
            cut: rows.numpy() if self._arrived is None else rows.numpy().copy() for cut, rows in self._vectors.items()
        }
