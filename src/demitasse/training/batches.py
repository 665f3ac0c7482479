"""Batches on their way to the model: sampled, split between processes and tokenised while another is trained."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from demitasse.data.sampler import Sampler, TextBatch
from demitasse.encoding.packed_tokens import PackedTokens
from demitasse.encoding.reader import Reader
from demitasse.errors import DataError
from demitasse.torch_model.device_tokens import ChosenTexts
from demitasse.training.text_bank import TextBank

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
    chunks: tuple[PackedTokens | ChosenTexts, ...]  # the tokens of `own`, all at once or a few examples at a time
    prompt_tokens: tuple[Tensor | None, ...]  # of each chunk
    after: dict[str, Any]  # the sampler's state after this batch

    @property
    def texts(self) -> int:
        """How many texts it has."""
        return len(self.whole.columns) * len(self.whole.columns[0])


Tokens = tuple[PackedTokens | ChosenTexts, Tensor | None]  # of some texts, and how many of each are its prompt


class Loader:
    """Turns the batches of a sampler into `Prepared` ones; `read` gives the tokens of some examples."""

    def __init__(self, read: Callable[[TextBatch], Tokens], micro_batch: int | None, share: Share) -> None:
        self._read, self._micro_batch, self._share = read, micro_batch, share

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
        tokens, prompt_tokens = zip(*(self._read(chunk) for chunk in chunks), strict=True)
        return Prepared(whole, own, tokens, prompt_tokens, after)


class Tokenizing:
    """The tokens of examples, made of their texts."""

    def __init__(self, reader: Reader, prompts: tuple[str, ...], *, pool_prompt: bool) -> None:
        self._reader = reader
        self._prompts = [reader.prefix(name) for name in prompts] or [reader.prefix()]
        self._prompt_tokens = [0 if pool_prompt else reader.prompt_tokens(prompt) for prompt in self._prompts]

    def __call__(self, chunk: TextBatch) -> Tokens:
        """The tokens of `chunk`, one column after another."""
        parts, counts = [], []
        for number, column in enumerate(chunk.columns):
            which = min(number, len(self._prompts) - 1)
            parts.append(self._reader.read(column, self._prompts[which]))
            counts += [self._prompt_tokens[which]] * len(column)
        return PackedTokens.joined(parts), torch.tensor(np.array(counts)) if any(counts) else None


class FromBank:
    """The tokens of examples whose texts are numbers, taken from where they lie on the device."""

    def __init__(self, bank: TextBank) -> None:
        self._bank = bank

    def __call__(self, chunk: TextBatch) -> Tokens:
        """The tokens of `chunk`, one column after another."""
        slots = self._bank.slots(chunk.columns).ravel()
        # This may be another thread, whose GPU would be the first one.
        with torch.cuda.device(self._bank.device) if self._bank.device.type == "cuda" else nullcontext():
            return self._bank.chosen(slots)


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
