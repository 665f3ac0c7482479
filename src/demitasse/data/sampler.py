"""Batches of training examples, sampled without replacement, in which no two examples share a text.

In a batch every text is a negative for the examples it does not belong to, so a text in two of them would be pushed
away from its own counterpart. An example that shares a text with the batch therefore waits for a later one.
"""

from __future__ import annotations

import heapq
import operator
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from demitasse.data.columns import text_key
from demitasse.data.pairs import Example, Pairs, Source
from demitasse.errors import DataError

# Separate the random streams of one seed: which source is next, and which two texts of a group.
_SOURCE_STREAM, _GROUP_STREAM = 0x5EED_0001, 0x5EED_0002
_MAX_WAITING = 2  # turns of one row that may wait

Key = Callable[[Any], Hashable]  # of a text, or of its number
_Turn = tuple[int, int]  # pass, row of the source: each is used once
_Waiting = tuple[int, int, int]  # order of arrival, pass, row


@dataclass(frozen=True)
class TextBatch:
    """Examples of one source, column by column; of numbered data, `columns` has the numbers of the texts."""

    columns: tuple[tuple[str, ...], ...]  # anchors, positives, and negatives if there are any
    scores: tuple[float, ...] | None
    rows: tuple[tuple[int, tuple[int, ...]], ...]  # for each example its row in the source, and which of its texts
    source: int


class Sampler:
    """Endless batches of `batch` examples; the same data, batch and seed always give the same ones.

    Each batch comes from one source, chosen at random by weight; with `paired_only` never from plain texts. `batch` may
    be a list, with a size for each source. A source without as many examples that share no text gives smaller batches;
    `key` says which texts count as the same. Every row has one turn in each pass over its source. If a text is in more
    rows than a pass has batches, not all of them can have theirs: a row with two turns waiting does not get a third.

    >>> from demitasse.data.pairs import read_pairs
    >>> data = read_pairs([("a cup", "a mug"), ("a bean", "a seed"), ("A cup", "a bowl")])
    >>> sampler = Sampler(data, batch=2, seed=0)
    >>> [[row for row, _ in sampler.next().rows] for _ in range(3)]
    [[2, 1], [0, 1], [2, 1]]
    """

    def __init__(
        self,
        data: Pairs,
        batch: int | Sequence[int],
        seed: int,
        *,
        paired_only: bool = False,
        key: Key = text_key,
    ) -> None:
        sizes = [batch] * len(data.sources) if isinstance(batch, (int, np.integer)) else [*batch]
        if len(sizes) != len(data.sources):
            raise DataError(f"{len(sizes)} sizes of batches were given for {len(data.sources)} sources; give one each")
        if min(sizes) < 2:
            raise DataError(f"batch={min(sizes)} was given; a batch needs at least 2 rows to tell apart")
        if seed < 0:
            raise DataError(f"seed={seed} was given; a seed must be 0 or more")
        for source in data.sources:
            if len(source) < 2:
                raise DataError(f"{source.name} has {len(source)} row; a source needs at least 2 to make a batch")
        # Plain ints, for JSON; one where all are equal, as it always was.
        sizes = [operator.index(size) for size in sizes]
        self._batch: int | list[int] = sizes[0] if len({*sizes}) == 1 else sizes
        self._data, self._seed = data, operator.index(seed)
        # A source of weight 0 is never chosen.
        self._cumulative = np.cumsum(
            [0 if paired_only and not source.paired else source.weight for source in data.sources]
        )
        # Rounding may make the random number equal the sum, which is past the last source that has a weight.
        self._last = int(np.searchsorted(self._cumulative, self._cumulative[-1]))
        self._turns = [
            _Turns(source, size, [self._seed, number], key)
            for number, (source, size) in enumerate(zip(data.sources, sizes, strict=True))
        ]
        self._batches = self._rows = 0

    @property
    def epoch(self) -> float:
        """How often the data has been used, on average over all rows."""
        return self._rows / len(self._data)

    def next(self) -> TextBatch:
        """The next batch."""
        position = np.random.default_rng([_SOURCE_STREAM, self._seed, self._batches]).random() * self._cumulative[-1]
        source = min(int(np.searchsorted(self._cumulative, position, side="right")), self._last)
        drawn = self._turns[source].batch()
        self._batches += 1
        self._rows += len(drawn)
        which = [self._text_indices(source, turn, example) for turn, example in drawn]
        texts = [
            [example.texts[index] for index in indices] for (_, example), indices in zip(drawn, which, strict=True)
        ]
        scores = tuple(example.score for _, example in drawn if example.score is not None)
        return TextBatch(
            columns=tuple(zip(*texts, strict=True)),
            scores=scores if self._data.sources[source].kind == "scored" else None,
            rows=tuple((row, indices) for ((_, row), _), indices in zip(drawn, which, strict=True)),
            source=source,
        )

    def state(self) -> dict[str, Any]:
        """What `restore` needs, as JSON values; its size depends on the waiting rows, not on the batches so far."""
        return {
            "seed": self._seed,
            "batch": self._batch,
            "data": self._identity(),
            "batches": self._batches,
            "rows": self._rows,
            "sources": [turns.state() for turns in self._turns],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue where the sampler that gave `state` was; it must have had the same data, batch and seed."""
        identity = {"seed": self._seed, "batch": self._batch, "data": self._identity()}
        for name, value in identity.items():
            if state.get(name) != value:
                raise DataError(
                    f"the state to restore has a different {name}; use the one that the run was started with"
                )
        try:
            self._batches, self._rows = int(state["batches"]), int(state["rows"])
            for turns, saved in zip(self._turns, state["sources"], strict=True):
                turns.restore(saved)
        except (KeyError, TypeError, ValueError, IndexError) as problem:
            raise DataError(
                f"the state to restore is incomplete ({problem!r}); use one that state() returned"
            ) from problem

    def _identity(self) -> list[list[Any]]:
        return [[source.sha256, source.kind, source.weight] for source in self._data.sources]

    def _text_indices(self, source: int, turn: _Turn, example: Example) -> tuple[int, ...]:
        """Which texts of an example are used: all, or two of a group in any order."""
        count = len(example.texts)
        if self._data.sources[source].kind != "groups":
            return tuple(range(count))
        two = np.random.default_rng([_GROUP_STREAM, self._seed, source, *turn]).choice(count, 2, replace=False)
        return tuple(two.tolist())


class _Turns:
    """The examples of one source in the order of their turns, batch by batch."""

    def __init__(self, source: Source, batch: int, seeds: list[int], key: Key) -> None:
        self._source, self._batch, self._seeds, self._key = source, batch, seeds, key
        self._pass = self._position = 0
        self._full = batch  # the size of a full batch, reduced once a complete pass has shown that no more fit
        self._waiting = _WaitingTurns(source, key)
        self._order: tuple[int, npt.NDArray[np.int64]] | None = None  # the permutation of a pass

    def batch(self) -> list[tuple[_Turn, Example]]:
        """The next examples, with the turn of each."""
        return self._in_order() if self._source.kind == "scored" else self._without_shared_texts()

    def state(self) -> dict[str, Any]:
        return {
            "pass": self._pass,
            "position": self._position,
            "full": self._full,
            "waiting": [list(turn) for turn in self._waiting.turns()],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        waiting = _WaitingTurns(self._source, self._key)
        for number, row in state["waiting"]:
            waiting.put((number, row), self._key(self._source[row].texts[0]))
        self._pass, self._position, self._full = (int(state[name]) for name in ("pass", "position", "full"))
        self._waiting = waiting

    def _in_order(self) -> list[tuple[_Turn, Example]]:
        taken: list[tuple[_Turn, Example]] = []
        while len(taken) < min(self._batch, len(self._source)):
            if self._position == len(self._source):
                self._next_pass()
            turn = self._next_turn()
            taken.append((turn, self._source[turn[1]]))
        return taken

    def _without_shared_texts(self) -> list[tuple[_Turn, Example]]:
        """Examples that share no text: first those that wait, then those that follow."""
        used: set[Any] = set()
        taken = self._waiting.take(used, self._full)
        complete = self._position == 0  # whether every row of the source has been tried, once the pass ends
        while len(taken) < self._full:
            if self._position == len(self._source):
                if complete:
                    self._full = len(taken)
                    break
                self._next_pass()
                complete = True
            turn = self._next_turn()
            example = self._source[turn[1]]
            keys = _keys(example, self._key)
            shared = keys & used
            if shared:
                self._waiting.put(turn, min(shared))
            else:
                used.update(keys)
                taken.append((turn, example))
        if len(taken) < 2:
            turn, example = taken[0]
            alone = f"row {turn[1]} ({example.texts[0]!r:.60}) shares a text with every other row"
            raise DataError(f"{self._source.name}: {alone}; remove it, or add rows with other texts")
        return taken

    def _next_turn(self) -> _Turn:
        if self._order is None or self._order[0] != self._pass:
            generator = np.random.default_rng([*self._seeds, self._pass])
            self._order = self._pass, generator.permutation(len(self._source))
        self._position += 1
        return self._pass, int(self._order[1][self._position - 1])

    def _next_pass(self) -> None:
        self._pass += 1
        self._position = 0
        self._full = self._batch


class _WaitingTurns:
    """Turns that were put off, tried again in order of arrival.

    Each is filed under a text that it shared with a batch. Once that text is in a batch, no other turn filed under it
    fits, so a batch looks at no more rows than there are such texts, even if one text is in half of all rows.
    """

    def __init__(self, source: Source, key: Key) -> None:
        self._source, self._key = source, key
        self._by_text: dict[Hashable, list[_Waiting]] = {}  # heaps, by the key of a text
        self._per_row: Counter[int] = Counter()
        self._arrivals = 0

    def turns(self) -> Iterator[_Turn]:
        """All that wait, in order of arrival."""
        return ((number, row) for _, number, row in sorted(turn for heap in self._by_text.values() for turn in heap))

    def put(self, turn: _Turn, text: Hashable) -> None:
        """Let `turn` wait for a batch without `text`; if its row has enough turns waiting, it is lost."""
        if self._per_row[turn[1]] < _MAX_WAITING:
            self._per_row[turn[1]] += 1
            heapq.heappush(self._by_text.setdefault(text, []), (self._arrivals, *turn))
            self._arrivals += 1

    def take(self, used: set[Any], room: int) -> list[tuple[_Turn, Example]]:
        """Up to `room` turns that share no text with each other; their texts are added to `used`."""
        taken: list[tuple[_Turn, Example]] = []
        first: list[tuple[_Waiting, Any]] = [(heap[0], text) for text, heap in self._by_text.items()]
        heapq.heapify(first)
        while first and len(taken) < room:
            waiting, text = heapq.heappop(first)
            if text in used:
                continue
            self._remove(text)
            example = self._source[waiting[2]]
            keys = _keys(example, self._key)
            shared = keys & used
            if shared:  # it goes on waiting, for that one, and the next one filed under this text is tried
                heapq.heappush(self._by_text.setdefault(min(shared), []), waiting)
                if text in self._by_text:
                    heapq.heappush(first, (self._by_text[text][0], text))
            else:
                used.update(keys)
                taken.append((waiting[1:], example))
                self._per_row[waiting[2]] -= 1
        return taken

    def _remove(self, text: Hashable) -> None:
        """Drop the first turn filed under `text`."""
        heapq.heappop(self._by_text[text])
        if not self._by_text[text]:
            del self._by_text[text]


def _keys(example: Example, key: Key) -> set[Any]:
    # All texts of a group, not only the two that are used: the others mean the same.
    return {key(text) for text in example.texts}
