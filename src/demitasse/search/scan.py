"""`Scan`: how a search goes over the vectors, from coarse to fine, and the search itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
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
    cosines,
    first_products,
    scales_of,
    sign_bits,
    smallest,
)
from demitasse.errors import DataError
from demitasse.host.machine import cores
from demitasse.search.segments import FIRST_DIMS, Segment, blocks

COARSE = ("bits", "dims", "graph", "none")
RECALL = 0.99  # that a search has unless it is told otherwise
_CHUNKS = {"bits": 1 << 17, "dims": 1 << 16, "none": 1 << 11}  # vectors that one thread looks at before it takes more
_TOGETHER = 16  # queries whose costs are in memory at a time
_FEW = 8192  # vectors that are compared at full width without a first pass
_COSTS: dict[str, npt.DTypeLike] = {"bits": np.uint16, "dims": np.float32, "none": np.float32}
_BEYOND = {"bits": float(0xFFFF), "dims": float("inf"), "none": float("inf")}  # the cost of what must not be found
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


def nearest(segments: Sequence[Segment], mask: Mask | None, queries: Floats, k: int, scan: Scan) -> list[Nearest]:
    """The `k` nearest of the vectors that `mask` lets through, for each of `queries` (Q, d) of unit length."""
    coarse = _possible(scan.coarse or "none", queries.shape[1], segments)
    shortlist = k if coarse == "none" else max(scan.shortlist or k, k)
    if mask is not None and np.count_nonzero(mask) <= max(shortlist, _FEW):
        places = np.flatnonzero(mask)
        return [best(places, cosines_at(segments, places, query), k) for query in queries]
    found = []
    for start in range(0, len(queries), _TOGETHER):
        some = queries[start : start + _TOGETHER]
        for query, costs in zip(some, costs_of(segments, some, coarse), strict=True):
            if mask is not None:
                np.copyto(costs, _BEYOND[coarse], casting="unsafe", where=~mask)
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
    work = {"bits": _bit_costs, "dims": _first_costs, "none": _full_costs}[coarse](queries, costs)
    pieces = list(blocks(segments, _CHUNKS[coarse]))
    # Products of several queries are BLAS's work, which has threads of its own.
    if cores() == 1 or len(pieces) == 1 or (coarse == "none" and len(queries) > 1):
        for piece in pieces:
            work(*piece)
    else:
        for _ in _threads(os.getpid()).map(work, *zip(*pieces, strict=True)):
            pass
    return costs


def cosines_at(segments: Sequence[Segment], places: Positions, query: Floats) -> Floats:
    """The cosine of a query with the vectors at `places`, which are in order."""
    ends = np.cumsum([len(segment) for segment in segments])
    bounds = np.searchsorted(places, [0, *ends])
    scores = [np.zeros(0, np.float32)]
    for number, segment in enumerate(segments):
        for start in range(bounds[number], bounds[number + 1], _FEW):
            some = places[start : min(start + _FEW, bounds[number + 1])] - (ends[number] - len(segment))
            values = segment.vectors(some, len(query))
            scores.append(cosines(values, query, _scales(segment, some, len(query))))
    return np.concatenate(scores)


def best(places: Positions, scores: Floats, k: int) -> Nearest:
    """The `k` best; of equal ones, those that come first."""
    kept = np.lexsort((places, -scores))[:k]
    return Nearest(places[kept], scores[kept])


_Work = Callable[[int, Segment, slice], None]


def _bit_costs(queries: Floats, costs: npt.NDArray[Any]) -> _Work:
    asked = sign_bits(queries)  # of a query with fewer dims than the vectors, no word may be half full

    def work(position: int, segment: Segment, block: slice) -> None:
        columns = segment.bits[: len(asked), block]
        for number in range(len(queries)):
            bit_distances(columns, asked[:, number], costs[number, position : position + block.stop - block.start])

    return work


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


def _scales(segment: Segment, places: Positions | slice, dims: int) -> Floats | None:
    """What makes products over the first `dims` cosines, if it is known."""
    if dims == segment.dims:
        return segment.scales[places]
    return segment.first_scales[places] if dims == segment.first.shape[1] else None


@cache
def _threads(process: int) -> ThreadPoolExecutor:
    """Threads of this process; a fork has none of them."""
    return ThreadPoolExecutor(cores(), "demitasse-search")
