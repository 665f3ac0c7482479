"""What it costs to embed a corpus of so many texts at each measured cut: hours, bytes of vectors and of an index.

The rate comes from the profile, whose batches are small, or better from a sample of the texts, which is encoded here as
a corpus is: many at a time, at each depth in turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from demitasse.arguments import number, whole
from demitasse.encoding.encoder import Encoder
from demitasse.encoding.vectors import index_bytes, store
from demitasse.errors import DataError
from demitasse.planning.profile import MeasuredCut, Profile
from demitasse.planning.profile_json import measured_as_plain

AXES = ("quality", "speed", "vectors")  # what a corpus is about: nobody waits for a single text
LEAST = 1000  # texts of a sample
_FIRST = 2000  # texts that fill the caches and say how many can be timed
_ROUNDS = 5


@dataclass(frozen=True)
class CorpusCost:
    """What `count` texts cost at a measured cut."""

    measured: MeasuredCut
    count: int
    texts_per_second: float
    euros_per_hour: float | None = None

    @property
    def hours(self) -> float:
        """Of the machine that was timed; with a GPU, GPU hours."""
        return self.count / self.texts_per_second / 3600

    @property
    def vector_bytes(self) -> int:
        """Of all vectors, stored as they were measured."""
        return self.count * self.measured.vector_bytes

    @property
    def index_bytes(self) -> int:
        """Of an index of them, without texts."""
        return self.count * index_bytes(self.measured.cut.dims)

    @property
    def euros(self) -> float | None:
        """Of the hours, if the price of one is known."""
        return None if self.euros_per_hour is None else self.hours * self.euros_per_hour

    def as_plain(self) -> dict[str, Any]:
        """All numbers as JSON values."""
        rate = {"texts_per_second": self.texts_per_second, "hours": self.hours, "euros": self.euros}
        sizes = {"vector_bytes": self.vector_bytes, "index_bytes": self.index_bytes}
        return {**measured_as_plain(self.measured), "corpus": {**rate, **sizes}}


def corpus_costs(
    rows: Iterable[MeasuredCut],
    count: float,
    rates: Mapping[int, float] | None = None,
    euros_per_hour: float | None = None,
) -> list[CorpusCost]:
    """The cost at each of `rows`; `rates` are texts per second by layers, where a sample was timed."""
    texts = whole("count", int(number("count", count, above=0)), least=1)
    price = None if euros_per_hour is None else number("euros_per_hour", euros_per_hour, above=0)
    return [
        CorpusCost(row, texts, row.timing.texts_per_second if rates is None else rates[row.cut.layers], price)
        for row in rows
    ]


def corpus_front(profile: Profile, among: Sequence[MeasuredCut]) -> list[MeasuredCut]:
    """The rows of `among` that no other of them beats in quality, speed and size of vectors; the fastest first."""
    return list(replace(profile, rows=tuple(among)).front(*AXES))


def time_sample(
    encoder: Encoder,
    depths: Iterable[int],
    texts: Sequence[str],
    seconds: float = 20.0,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[int, float]:
    """Texts per second of a long run over texts like these, by layers."""
    if len(texts) < LEAST:
        raise DataError(f"the sample has {len(texts):,} texts; give at least {LEAST:,}, so that their rate can be told")
    encoders = {depth: encoder.cut(layers=depth) for depth in sorted({*depths})}

    def seconds_for(depth: int, many: Sequence[str]) -> float:
        began = clock()
        store(encoders[depth].encode(many, progress=False), "int8")
        return clock() - began

    each = seconds / (_ROUNDS * len(encoders))  # for one depth in one round
    first = [texts[place % len(texts)] for place in range(_FIRST)]
    counts = {}
    for depth in encoders:
        seconds_for(depth, first[:LEAST])
        guess = LEAST / max(seconds_for(depth, first[LEAST:]), 1e-9)
        counts[depth] = max(LEAST, int(guess * each))
    taken: dict[int, list[float]] = {depth: [] for depth in encoders}
    for turn in range(_ROUNDS):
        for depth, count in counts.items():
            many = [texts[(turn * count + place) % len(texts)] for place in range(count)]
            taken[depth].append(seconds_for(depth, many) / count)
    return {depth: 1 / median(times) for depth, times in taken.items()}
