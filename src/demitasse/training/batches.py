"""Batches on their way to the model: sampled, split between processes and tokenised while another is trained."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from demitasse.data.sampler import Sampler, TextBatch
from demitasse.encoding.packed_tokens import PackedTokens
from demitasse.encoding.reader import Reader
from demitasse.errors import DataError

AHEAD = 3  # batches prepared while another is trained


@dataclass(frozen=True)
class Share:
    """Which of several processes this one is."""

    rank: int = 0
    world: int = 1


@dataclass(frozen=True)
class Prepared:
    """A batch that is ready for the model."""

    whole: TextBatch  # of all processes together, the same in each
    own: TextBatch  # this process's part of it
    chunks: tuple[PackedTokens, ...]  # the tokens of `own`, all at once or a few examples at a time
    prompt_tokens: tuple[Tensor | None, ...]  # of each chunk
    after: dict[str, Any]  # the sampler's state after this batch

    @property
    def texts(self) -> int:
        """How many texts it has."""
        return len(self.whole.columns) * len(self.whole.columns[0])


class Loader:
    """Turns the batches of a sampler into `Prepared` ones."""

    def __init__(
        self, reader: Reader, prompts: tuple[str, ...], micro_batch: int | None, share: Share, *, pool_prompt: bool
    ) -> None:
        self._reader, self._micro_batch, self._share = reader, micro_batch, share
        self._prompts = [reader.prefix(name) for name in prompts] or [reader.prefix()]
        self._prompt_tokens = [0 if pool_prompt else reader.prompt_tokens(prompt) for prompt in self._prompts]

    @contextmanager
    def batches(self, sampler: Sampler) -> Iterator[Iterator[Prepared]]:
        """Endless batches, a few of them prepared ahead in another thread."""
        with ThreadPoolExecutor(1, "demitasse-batches") as thread:

            def prepared() -> Iterator[Prepared]:
                pending: deque[Future[Prepared]] = deque()
                while True:
                    while len(pending) < AHEAD:
                        pending.append(thread.submit(self._next, sampler))
                    yield pending.popleft().result()

            yield prepared()

    def _next(self, sampler: Sampler) -> Prepared:
        return self.prepare(sampler.next(), sampler.state())

    def prepare(self, whole: TextBatch, after: dict[str, Any]) -> Prepared:
        """`whole`, with this process's share of it tokenised."""
        count = len(whole.columns[0]) // self._share.world
        if count == 0:
            raise DataError(
                f"a batch of {len(whole.columns[0])} rows cannot be split between {self._share.world} processes; "
                "give more data or use fewer processes"
            )
        whole = part_of(whole, 0, count * self._share.world)  # every process needs the same number
        own = part_of(whole, count * self._share.rank, count * (self._share.rank + 1))
        size = min(self._micro_batch or count, count)
        chunks = [part_of(own, start, min(start + size, count)) for start in range(0, count, size)]
        tokens, prompt_tokens = zip(*(self._tokens(chunk) for chunk in chunks), strict=True)
        return Prepared(whole, own, tokens, prompt_tokens, after)

    def _tokens(self, chunk: TextBatch) -> tuple[PackedTokens, Tensor | None]:
        parts, counts = [], []
        for number, column in enumerate(chunk.columns):
            which = min(number, len(self._prompts) - 1)
            parts.append(self._reader.read(column, self._prompts[which]))
            counts += [self._prompt_tokens[which]] * len(column)
        return PackedTokens.joined(parts), torch.tensor(np.array(counts)) if any(counts) else None


def shortened(reader: Reader, max_tokens: int | None) -> Reader:
    """`reader`, truncating texts at `max_tokens` if that is less than it allows."""
    if max_tokens is None or max_tokens >= reader.max_tokens:
        return reader
    return reader.limited(max_tokens)


def part_of(batch: TextBatch, start: int, end: int) -> TextBatch:
    """The examples `start` to `end` of a batch."""
    return replace(
        batch,
        columns=tuple(column[start:end] for column in batch.columns),
        scores=None if batch.scores is None else batch.scores[start:end],
        rows=batch.rows[start:end],
    )
