"""What an index costs by dims: bytes for a million vectors, and the time of a search over them on this machine.

A search goes over the first sign bits of all vectors, over all bits of those that are left, and over a shortlist in
full. The time is measured on random vectors, which is all the same to it. How long the shortlist must be for a recall
is not known before there is an index, so a share of all vectors is assumed, two to three times what a million sentences
needed (docs/search.md).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from demitasse.encoding.scan_kernels import Bits, bit_distances, bit_distances_at, cosines, first_words, small, smallest
from demitasse.encoding.vectors import index_bytes
from demitasse.errors import DataError
from demitasse.host.fields import Fields
from demitasse.planning.profile import Profile

MILLION = 1_000_000
SHARES = {0.9: 0.0005, 0.95: 0.002, 0.99: 0.01}  # of all vectors in the shortlist, by recall
_FEW = 1000  # vectors of a shortlist that are timed
_LEFT = MILLION // 40  # vectors whose other bits are compared, as measured on a million sentences
_ROUNDS = 5


@dataclass(frozen=True)
class IndexCost:
    """What an index of vectors of so many dims costs."""

    dims: int
    bytes_per_million: int
    scan_ms: float  # the first pass over a million vectors
    full_ms: float  # a thousand vectors in full

    def gigabytes(self, documents: int) -> float:
        """The size of an index of so many, without their texts."""
        return documents * self.bytes_per_million / MILLION / 1e9

    def search_ms(self, documents: int, recall: float = 0.99) -> float:
        """About how long a search over so many takes; one with a recall beyond 0.99 goes over all of them in full."""
        enough = [share for known, share in SHARES.items() if known >= recall]
        shortlist = documents * (enough[0] if enough else 1)
        return (self.scan_ms * documents / MILLION if enough else 0) + self.full_ms * shortlist / _FEW


def time_index(widths: Iterable[int], clock: Callable[[], float] = time.perf_counter) -> list[IndexCost]:
    """The costs for each number of dims, timed in turns."""
    chance = np.random.default_rng(0)
    wanted = sorted({*widths})
    words = -(-max(wanted, default=1) // 64)
    bits = chance.integers(0, 1 << 63, (words, MILLION), np.uint64)
    stored = chance.integers(-127, 128, (20 * _FEW, max(wanted, default=1))).astype(np.int8)
    places = np.sort(chance.choice(len(stored), _FEW, replace=False))
    times: dict[int, list[tuple[float, float]]] = {dims: [] for dims in wanted}
    for number in range(_ROUNDS + 1):
        for dims in wanted:
            query = chance.standard_normal(dims).astype(np.float32)
            began = clock()
            _first_pass(bits[: -(-dims // 64)], bits[: -(-dims // 64), number], first_words(dims))
            between = clock()
            cosines(stored.take(places, axis=0)[:, :dims].astype(np.float32), query, None)
            if number:
                times[dims].append((between - began, clock() - between))
    medians = {dims: 1000 * np.median(taken, axis=0) for dims, taken in times.items()}
    return [IndexCost(dims, MILLION * index_bytes(dims), *map(float, medians[dims].round(4))) for dims in wanted]


def _first_pass(columns: Bits, query: Bits, first: int) -> None:
    """What a search does before it compares a shortlist in full."""
    if not first:
        bit_distances(columns, query, distances := np.empty(MILLION, np.uint16))
        smallest(distances, _FEW, math.inf)
        return
    bit_distances(columns[:first], query[:first], some := np.empty(MILLION, np.uint8))
    places = small(some, _LEFT, math.inf)
    smallest(some[places] + bit_distances_at(columns[first:], query[first:], places), _FEW, math.inf)


def as_plain(costs: Iterable[IndexCost]) -> list[dict[str, Any]]:
    """Costs as plain values for a profile."""
    return [asdict(cost) for cost in costs]


def index_costs(profile: Profile) -> dict[int, IndexCost]:
    """The costs that a profile has, by dims; none if it was measured before there were any."""
    fields = Fields(dict(profile.made), "the profile", "measure again", DataError, at="made")
    costs = [
        IndexCost(
            one.whole("dims", least=1),
            one.whole("bytes_per_million", least=1),
            one.number("scan_ms", least=0),
            one.number("full_ms", least=0),
        )
        for one in (fields.each("index") if fields.has("index") else ())
    ]
    return {cost.dims: cost for cost in costs}
