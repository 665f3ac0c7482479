"""Batches of training rows, drawn without replacement, in which no two rows share a text.

In a batch every text serves as a negative for the rows it does not belong to, so a text that stands in two rows would
be pushed away from its own counterpart. A row that shares a text with the batch therefore waits for a later one.
"""

from __future__ import annotations

import heapq
import operator
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from demitasse.data.columns import text_key
from demitasse.data.pairs import Example, Pairs, Source
from demitasse.errors import DataError

# Set apart what is drawn with one seed: which source is next, and which two texts of a group.
_CHOICE, _DRAW = 0x5EED_0001, 0x5EED_0002
_TURNS = 2  # how many turns of one row may wait

_Turn = tuple[int, int]  # pass, row: each is used once
_Waiting = tuple[int, int, int]  # when it was put off, pass, row


@dataclass(frozen=True)
class TextBatch:
    """Rows of one source, column by column."""

    columns: tuple[tuple[str, ...], ...]  # anchors, positives, and negatives if there are any
    scores: tuple[float, ...] | None
    rows: tuple[tuple[int, tuple[int, ...]], ...]  # for each row its number in the source, and which of its texts
    source: int


class Sampler:
    """Endless batches of `batch` rows; the same data, batch and seed always give the same ones.

    Each batch comes from one source, drawn by weight; with `paired_only` never from plain texts. A source that has no
    `batch` rows without a text in common gives smaller batches. Every row has one turn in each pass over its source;
    where a text stands in more rows than there are batches in a pass, not all of them can have theirs: a row that has
    waited for two turns gets no third one.

    >>> from demitasse.data.pairs import read_pairs
    >>> data = read_pairs([("a cup", "a mug"), ("a bean", "a seed"), ("A cup", "a bowl")])
    >>> sampler = Sampler(data, batch=2, seed=0)
    >>> [[row for row, _ in sampler.next().rows] for _ in range(3)]
    [[2, 1], [0, 1], [2, 1]]
    """

    def __init__(self, data: Pairs, batch: int, seed: int, *, paired_only: bool = False) -> None:
        if batch < 2:
            raise DataError(f"batch={batch} was given; a batch must have at least 2 rows to tell apart")
        if seed < 0:
            raise DataError(f"seed={seed} was given; a seed must be 0 or more")
        for source in data.sources:
            if len(source) < 2:
                raise DataError(f"{source.name} has {len(source)} row; a source needs at least 2 to make a batch")
        self._data, self._batch, self._seed = data, operator.index(batch), operator.index(seed)  # ints, for JSON
        # A source of no weight is never drawn.
        self._shares = np.cumsum([0 if paired_only and not source.paired else source.weight for source in data.sources])
        # Rounding may bring a draw up to the sum itself, which is past the last source that has a weight.
        self._last = int(np.searchsorted(self._shares, self._shares[-1]))
        self._turns = [_Turns(source, batch, [seed, number]) for number, source in enumerate(data.sources)]
        self._batches = self._rows = 0

    @property
    def epoch(self) -> float:
        """How often the data has been seen, on average over all rows."""
        return self._rows / len(self._data)

    def next(self) -> TextBatch:
        """The next batch."""
        draw = np.random.default_rng([_CHOICE, self._seed, self._batches]).random() * self._shares[-1]
        number = min(int(np.searchsorted(self._shares, draw, side="right")), self._last)
        turns = self._turns[number].batch()
        self._batches += 1
        self._rows += len(turns)
        which = [self._which(number, turn, row) for turn, row in turns]
        chosen = [[row.texts[place] for place in places] for (_, row), places in zip(turns, which, strict=True)]
        scores = tuple(row.score for _, row in turns if row.score is not None)
        return TextBatch(
            columns=tuple(zip(*chosen, strict=True)),
            scores=scores if self._data.sources[number].kind == "scored" else None,
            rows=tuple((turn[1], places) for (turn, _), places in zip(turns, which, strict=True)),
            source=number,
        )

    def state(self) -> dict[str, Any]:
        """All that `restore` needs, for JSON; its size depends on the rows that wait, not on how far it has come."""
        return {
            "seed": self._seed,
            "batch": self._batch,
            "data": self._identity(),
            "batches": self._batches,
            "rows": self._rows,
            "sources": [turns.state() for turns in self._turns],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where the sampler that gave `state` was; it must have had the same data, batch and seed."""
        ours = {"seed": self._seed, "batch": self._batch, "data": self._identity()}
        for name, value in ours.items():
            if state.get(name) != value:
                raise DataError(f"the state to restore is of another {name}; go on with what the run was started with")
        try:
            self._batches, self._rows = int(state["batches"]), int(state["rows"])
            for turns, saved in zip(self._turns, state["sources"], strict=True):
                turns.restore(saved)
        except (KeyError, TypeError, ValueError, IndexError) as problem:
            raise DataError(f"the state to restore is incomplete ({problem!r}); use one that state() gave") from problem

    def _identity(self) -> list[list[Any]]:
        return [[source.sha256, source.kind, source.weight] for source in self._data.sources]

    def _which(self, source: int, turn: _Turn, row: Example) -> tuple[int, ...]:
        """The texts of a row that are used: of a group two, in any order."""
        if self._data.sources[source].kind != "groups":
            return tuple(range(len(row.texts)))
        drawn = np.random.default_rng([_DRAW, self._seed, source, *turn]).choice(len(row.texts), 2, replace=False)
        return tuple(drawn.tolist())


class _Turns:
    """The rows of one source in the order of their turns, batch by batch."""

    def __init__(self, source: Source, batch: int, seeds: list[int]) -> None:
        self._source, self._batch, self._seeds = source, batch, seeds
        self._pass = self._position = 0
        self._full = batch  # the size of a batch, or less once a whole pass has shown that there is no more
        self._waiting = _WaitingRows(source)
        self._order: tuple[int, npt.NDArray[np.int64]] | None = None  # the permutation of a pass

    def batch(self) -> list[tuple[_Turn, Example]]:
        """The next rows, with the turn of each."""
        return self._in_order() if self._source.kind == "scored" else self._apart()

    def state(self) -> dict[str, Any]:
        return {
            "pass": self._pass,
            "position": self._position,
            "full": self._full,
            "waiting": [list(turn) for turn in self._waiting.turns()],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        waiting = _WaitingRows(self._source)
        for number, row in state["waiting"]:
            waiting.put((number, row), text_key(self._source[row].texts[0]))
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

    def _apart(self) -> list[tuple[_Turn, Example]]:
        """Rows that share no text: first those that wait, then those that follow."""
        used: set[str] = set()
        taken = self._waiting.take(used, self._full)
        whole = self._position == 0  # whether every row of the source has been tried, once the pass ends
        while len(taken) < self._full:
            if self._position == len(self._source):
                if whole:
                    self._full = len(taken)
                    break
                self._next_pass()
                whole = True
            turn = self._next_turn()
            row = self._source[turn[1]]
            keys = _keys(row)
            shared = keys & used
            if shared:
                self._waiting.put(turn, min(shared))
            else:
                used.update(keys)
                taken.append((turn, row))
        if len(taken) < 2:
            turn, row = taken[0]
            alone = f"row {turn[1]} ({row.texts[0]!r:.60}) shares a text with every other row"
            raise DataError(f"{self._source.name}: {alone}; leave it out, or add rows with other texts")
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


class _WaitingRows:
    """Turns that were put off, taken again in the order they came.

    They are kept by a text that each was put off for. Once that text is in a batch, none of the others kept by it can
    be, so a batch looks at as many rows as there are such texts, even where one text stands in half of all rows.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._by_text: dict[str, list[_Waiting]] = {}  # heaps
        self._per_row: Counter[int] = Counter()
        self._put = 0

    def turns(self) -> Iterator[_Turn]:
        """All that wait, in their order."""
        return ((number, row) for _, number, row in sorted(turn for heap in self._by_text.values() for turn in heap))

    def put(self, turn: _Turn, text: str) -> None:
        """Let `turn` wait, for its row has `text`; a row that waits often enough already loses it."""
        if self._per_row[turn[1]] < _TURNS:
            self._per_row[turn[1]] += 1
            heapq.heappush(self._by_text.setdefault(text, []), (self._put, *turn))
            self._put += 1

    def take(self, used: set[str], room: int) -> list[tuple[_Turn, Example]]:
        """Up to `room` of those that share no text with each other; their texts are added to `used`."""
        taken: list[tuple[_Turn, Example]] = []
        first = [(heap[0], text) for text, heap in self._by_text.items()]
        heapq.heapify(first)
        while first and len(taken) < room:
            waiting, text = heapq.heappop(first)
            if text in used:
                continue
            self._remove(text)
            row = self._source[waiting[2]]
            keys = _keys(row)
            shared = keys & used
            if shared:  # it waits on for that one, and the next that was kept by this text may come
                heapq.heappush(self._by_text.setdefault(min(shared), []), waiting)
                if text in self._by_text:
                    heapq.heappush(first, (self._by_text[text][0], text))
            else:
                used.update(keys)
                taken.append((waiting[1:], row))
                self._per_row[waiting[2]] -= 1
        return taken

    def _remove(self, text: str) -> None:
        """The first of those kept by `text`."""
        heapq.heappop(self._by_text[text])
        if not self._by_text[text]:
            del self._by_text[text]


def _keys(row: Example) -> set[str]:
    # Of a group all of them and not the two that are drawn: the others mean the same.
    return {text_key(text) for text in row.texts}
