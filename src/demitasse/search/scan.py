"""`Scan`: how a search goes over the vectors, from coarse to fine, and the search itself."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from demitasse.arguments import choice, whole
from demitasse.arguments import number as checked_number
from demitasse.encoding.scan_kernels import (
    WORD,
    Floats,
    as_int8_query,
    bit_distances,
    bit_distances_at,
    cosines,
    first_products,
    first_words,
    scales_of,
    sign_bits,
    small,
    smallest,
)
from demitasse.errors import DataError
from demitasse.host.machine import cores
from demitasse.search.segments import FIRST_DIMS, Segment, blocks

COARSE = ("bits", "dims", "graph", "none")
FIRST_BITS = "first bits"  # what a pass over bits begins with, where there are many vectors
RECALL = 0.99  # that a search has unless it is told otherwise
# Vectors that one thread looks at before it takes more.
_CHUNKS = {"bits": 1 << 17, FIRST_BITS: 1 << 17, "dims": 1 << 16, "none": 1 << 11}
_TOGETHER = 16  # queries whose costs are in memory at a time
_FEW = 8192  # vectors that are compared at full width without a first pass
_COSTS: dict[str, npt.DTypeLike] = {"bits": np.uint16, FIRST_BITS: np.uint8, "dims": np.float32, "none": np.float32}
# The cost of what must not be found.
_BEYOND = {"bits": float(0xFFFF), FIRST_BITS: float(0xFF), "dims": float("inf"), "none": float("inf")}
Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64]  # counted through all files


@dataclass(frozen=True)
class Scan:
    """How to look for the nearest vectors; what is left out is chosen from what was measured when the index was built.

    `coarse` is the first pass: over "bits", the signs of all dims; over "dims", the first 64 of them; along the
    "graph", if the index has one; or "none", which compares every vector at full width. The best `shortlist` of the
    first pass are compared at full width; without a number, as many as the index was measured to need for `recall`,
    the share of the 10 nearest that a search finds.

    >>> Scan("bits", shortlist=400).shortlist
    400
    """

    coarse: str | None = None
    recall: float = RECALL
    shortlist: int | None = None

    def __post_init__(self) -> None:
        if self.coarse is not None:
            choice("coarse", self.coarse, COARSE)
        if not 0 < checked_number("recall", self.recall) <= 1:
            raise DataError(f"recall must be a share above 0 and up to 1, such as 0.99, not {self.recall}")
        if self.shortlist is not None:
            whole("shortlist", self.shortlist, least=1)


@dataclass(frozen=True)
class Nearest:
    """The nearest vectors of one query, best first."""

    positions: Positions
    scores: Floats


def nearest(
    segments: Sequence[Segment], mask: Mask | None, queries: Floats, k: int, scan: Scan, first: int | None = None
) -> list[Nearest]:
    """The `k` nearest of the vectors that `mask` lets through, for each of `queries` (Q, d) of unit length.

    With `first`, a pass over bits begins with some of them, and compares all bits of so many vectors only.
    """
    coarse = _possible(scan.coarse or "none", queries.shape[1], segments)
    shortlist = k if coarse == "none" else max(scan.shortlist or k, k)
    if first is not None and coarse == "bits" and first_words(queries.shape[1]):
        coarse = FIRST_BITS
    if mask is not None and np.count_nonzero(mask) <= max(shortlist, _FEW):
        places = np.flatnonzero(mask)
        return [best(places, cosines_at(segments, places, query), k) for query in queries]
    found = []
    for start in range(0, len(queries), _TOGETHER):
        some = queries[start : start + _TOGETHER]
        for query, costs in zip(some, costs_of(segments, some, coarse), strict=True):
            if mask is not None:
                np.copyto(costs, _BEYOND[coarse], casting="unsafe", where=~mask)
            if coarse == FIRST_BITS:
                places = small(costs, max(first or 0, shortlist), _BEYOND[coarse])
                places = places[smallest(_all_bits(segments, places, query, costs), shortlist, _BEYOND["bits"])]
            else:
                places = smallest(costs, shortlist, _BEYOND[coarse])
            scores = -costs[places] if coarse == "none" else cosines_at(segments, places, query)
            found.append(best(places, scores, k))
    return found


def _possible(coarse: str, dims: int, segments: Sequence[Segment]) -> str:
    """The first pass for queries of so many dims: bits are compared in whole words."""
    narrower = any(dims < segment.dims for segment in segments)
    return "dims" if coarse == "bits" and narrower and dims % WORD else coarse


def costs_of(segments: Sequence[Segment], queries: Floats, coarse: str) -> npt.NDArray[Any]:
    """How far each vector is from each query in one pass: (Q, n), less is nearer."""
    costs = np.empty((len(queries), sum(map(len, segments))), _COSTS[coarse])
    work = _WORK[coarse](queries, costs)
    pieces = list(blocks(segments, _CHUNKS[coarse]))
    # Products of several queries are BLAS's work, which has threads of its own.
    if cores() == 1 or len(pieces) == 1 or (coarse == "none" and len(queries) > 1):
        for piece in pieces:
            work(*piece)
    else:
        _in_threads(work, pieces)
    return costs


def cosines_at(segments: Sequence[Segment], places: Positions, query: Floats) -> Floats:
    """The cosine of a query with the vectors at `places`, which are in order."""
    scores = [np.zeros(0, np.float32)]
    for segment, those in _by_file(segments, places):
        for start in range(0, len(those), _FEW):
            some = those[start : start + _FEW]
            values = segment.vectors(some, len(query))
            scores.append(cosines(values, query, _scales(segment, some, len(query))))
    return np.concatenate(scores)


def best(places: Positions, scores: Floats, k: int) -> Nearest:
    """The `k` best; of equal ones, those that come first."""
    enough = np.partition(scores, -k)[-k] if k < len(scores) else -np.inf
    likely = np.flatnonzero(~(scores < enough))  # so that few are sorted; NaN is kept, for others to complain of
    kept = likely[np.lexsort((places[likely], -scores[likely]))[:k]]
    return Nearest(places[kept], scores[kept])


def _by_file(segments: Sequence[Segment], places: Positions) -> Iterator[tuple[Segment, Positions]]:
    """Each file with those of `places`, which are in order, that are in it."""
    ends = np.cumsum([len(segment) for segment in segments])
    bounds = np.searchsorted(places, [0, *ends])
    for number, segment in enumerate(segments):
        yield segment, places[bounds[number] : bounds[number + 1]] - (ends[number] - len(segment))


def _all_bits(
    segments: Sequence[Segment], places: Positions, query: Floats, costs: npt.NDArray[Any]
) -> npt.NDArray[np.uint16]:
    """In how many bits the vectors at `places` differ from a query, given the `costs` of the first bits."""
    asked, first = sign_bits(query[None])[:, 0], first_words(len(query))
    distances = costs[places].astype(np.uint16)
    others = [
        bit_distances_at(segment.bits[first : len(asked)], asked[first:], some)
        for segment, some in _by_file(segments, places)
    ]
    return np.add(distances, np.concatenate(others), out=distances)


_Work = Callable[[int, Segment, slice], None]


def _bit_costs(queries: Floats, costs: npt.NDArray[Any], words: int | None = None) -> _Work:
    asked = sign_bits(queries)[:words]  # of a query with fewer dims than the vectors, no word may be half full

    def work(position: int, segment: Segment, block: slice) -> None:
        columns = segment.bits[: len(asked), block]
        for number in range(len(queries)):
            bit_distances(columns, asked[:, number], costs[number, position : position + block.stop - block.start])

    return work


def _first_bit_costs(queries: Floats, costs: npt.NDArray[Any]) -> _Work:
    return _bit_costs(queries, costs, first_words(queries.shape[1]))


def _first_costs(queries: Floats, costs: npt.NDArray[Any]) -> _Work:
    asked = as_int8_query(queries[:, :FIRST_DIMS])

    def work(position: int, segment: Segment, block: slice) -> None:
        rows, dims = segment.first[block], len(asked)
        products = first_products(rows if dims == rows.shape[1] else np.ascontiguousarray(rows[:, :dims]), asked)
        # Of fewer dims than these scales are for, the order is not quite that of the cosines: the second pass decides.
        np.multiply(products.T, -segment.first_scales[block], out=costs[:, position : position + len(rows)])

    return work


def _full_costs(queries: Floats, costs: npt.NDArray[Any]) -> _Work:
    def work(position: int, segment: Segment, block: slice) -> None:
        values, here = segment.vectors(block, queries.shape[1]), slice(position, position + block.stop - block.start)
        scales = _scales(segment, block, queries.shape[1])
        if len(queries) == 1:
            np.negative(cosines(values, queries[0], scales), out=costs[0, here])
        else:
            scales = scales_of(values) if scales is None else scales
            np.multiply(queries @ values.T, -scales, out=costs[:, here])

    return work


_WORK: dict[str, Callable[[Floats, npt.NDArray[Any]], _Work]] = {
    "bits": _bit_costs,
    FIRST_BITS: _first_bit_costs,
    "dims": _first_costs,
    "none": _full_costs,
}


def _scales(segment: Segment, places: Positions | slice, dims: int) -> Floats | None:
    """What makes products over the first `dims` cosines, if it is known."""
    if dims == segment.dims:
        return segment.scales[places]
    return segment.first_scales[places] if dims == segment.first.shape[1] else None


def _in_threads(work: _Work, pieces: Sequence[tuple[int, Segment, slice]]) -> None:
    """Do `work` on all pieces, in this thread too, which would otherwise have to wait for another one to wake up."""
    left = deque(pieces)

    def take() -> None:
        while left:
            try:
                piece = left.popleft()
            except IndexError:  # another thread has taken the last one
                return
            work(*piece)

    others = [_threads(os.getpid()).submit(take) for _ in range(cores() - 1)]
    take()
    for other in others:
        other.result()


@cache
def _threads(process: int) -> ThreadPoolExecutor:
    """Threads of this process; a fork has none of them."""
    return ThreadPoolExecutor(cores() - 1, "demitasse-search")
