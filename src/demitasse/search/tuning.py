"""`Sizes`: how many vectors the first pass of a search must keep for a recall, measured on the index itself.

Queries like those of users are searched for in both ways: at full width over all vectors, and by each first pass. How
far down the first pass puts the true nearest ones, over all queries, says how long the shortlist must be.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from demitasse.encoding.scan_kernels import Floats, first_words
from demitasse.host.fields import Fields
from demitasse.search.catalog import CATALOG
from demitasse.search.scan import FIRST_BITS, Mask, Scan, costs_of
from demitasse.search.segments import Segment, blocks

EXACT_UP_TO = 20_000  # vectors that are compared at full width one by one, in a few milliseconds
NEAREST = 10
RECALLS = (0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999)  # for which shortlists are kept
_PASSES = ("bits", "dims")
_TOGETHER = 16  # queries
_BLOCK = 1 << 12  # vectors that are compared at full width at a time
_LONGEST = 0.1  # of all vectors: beyond it a first pass saves nothing
_LEAST = 2000  # vectors of a shortlist: comparing so many in full takes a tenth of a millisecond
_MORE = 8  # times as many vectors as the shortlist has, at least, are left over by the first bits
_FEW = 0.05  # of all vectors: if the first bits leave more, all bits at once take less


@dataclass(frozen=True)
class Sizes:
    """The shortlists that were measured: for each first pass, by recall."""

    rows: int = 0  # vectors there were then; 0: nothing was measured
    shortlists: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def scan(self, given: Scan, count: int, k: int, *, narrow: bool = False) -> Scan:
        """The scan of `count` vectors for the best `k`: as `given`, and as measured where nothing is given.

        `narrow` queries have fewer dims than the vectors: the fewer they are, the more of them are the first.
        """
        passes = ("dims",) if narrow else _PASSES
        if given.shortlist is not None:
            return Scan(given.coarse or passes[0], given.recall, given.shortlist)
        sizes = {coarse: self._size(coarse, given.recall, count, k) for coarse in _PASSES}
        coarse = given.coarse
        if coarse is None:
            short = [name for name in passes if sizes[name] <= _LONGEST * count]
            coarse = short[0] if short and count > EXACT_UP_TO else "none"
        return Scan(coarse, given.recall, sizes.get(coarse))

    def first(self, scan: Scan, count: int, k: int) -> int | None:
        """How many vectors the first bits leave for a `scan` that was chosen; `None` if all bits are read at once."""
        if scan.coarse != "bits" or scan.shortlist is None or FIRST_BITS not in self.shortlists:
            return None
        left = max(self._size(FIRST_BITS, scan.recall, count, k), _MORE * scan.shortlist)
        return left if left <= _FEW * count else None

    def outgrown_by(self, count: int) -> bool:
        """Whether there are so many vectors now that it should be measured again."""
        return count > max(EXACT_UP_TO, 2 * self.rows)

    def as_plain(self) -> dict[str, Any]:
        """Plain values for the catalog."""
        return asdict(self)

    @classmethod
    def of_plain(cls, plain: Any, folder: Path) -> Sizes:
        """What `as_plain` gave; nothing was measured if it is `None`."""
        if plain is None:
            return cls()
        fields = Fields(plain, folder / CATALOG, "run demitasse index compact to measure them again", at="sizes")
        inside = fields.inside("shortlists")
        return cls(fields.whole("rows"), {name: inside.whole_of(name) for name in inside.names()})

    def _size(self, coarse: str, recall: float, count: int, k: int) -> int:
        """The shortlist for a recall; what was not measured is all of them."""
        enough = [known for known in RECALLS if known >= recall]
        measured = self.shortlists.get(coarse, {}).get(str(enough[0])) if enough else None
        if not measured or not self.rows:
            return count
        # What must be kept grows with what there is, and with what is asked for.
        needed = math.ceil(measured * max(1.0, count / self.rows) * max(1.0, k / NEAREST))
        return min(count, max(needed, _LEAST))


@dataclass(frozen=True, eq=False)
class Sample:
    """Queries (Q, d) of unit length, and where the nearest vectors of each are: (Q, at most 10)."""

    queries: Floats
    true: npt.NDArray[np.int64]

    @classmethod
    def of(cls, queries: Floats, segments: Sequence[Segment], living: Mask | None) -> Sample:
        """`queries` with the nearest of the vectors of `segments` that are `living`."""
        count = sum(map(len, segments)) if living is None else int(np.count_nonzero(living))
        return cls(queries, _nearest(queries, segments, living)[:, : min(NEAREST, count)])


def measured(sample: Sample, segments: Sequence[Segment], living: Mask | None) -> Sizes:
    """The sizes for the vectors of `segments` that are `living`."""
    passes = (*_PASSES, FIRST_BITS) if first_words(sample.queries.shape[1]) else _PASSES
    ranks: dict[str, list[int]] = {coarse: [] for coarse in passes}
    for start in range(0, len(sample.queries), _TOGETHER):
        some = slice(start, start + _TOGETHER)
        for coarse, ranked in ranks.items():
            for costs, true in zip(costs_of(segments, sample.queries[some], coarse), sample.true[some], strict=True):
                ranked += [int(np.count_nonzero(costs <= costs[place])) for place in true]
    shortlists = {}
    for coarse, ranked in ranks.items():
        ordered = sorted(ranked)
        needed = {str(recall): ordered[math.ceil(recall * len(ordered)) - 1] for recall in RECALLS}
        shortlists[coarse] = {recall: max(2 * NEAREST, size) for recall, size in needed.items()}
    count = sum(map(len, segments)) if living is None else int(np.count_nonzero(living))
    return Sizes(count, shortlists)


def _nearest(queries: Floats, segments: Sequence[Segment], living: Mask | None) -> npt.NDArray[np.int64]:
    """Where the nearest vectors of each query are: (Q, 10), from one pass over all vectors."""
    scores = np.full((len(queries), NEAREST), -np.inf, np.float32)
    places = np.zeros((len(queries), NEAREST), np.int64)
    for position, segment, block in blocks(segments, _BLOCK):
        values = segment.vectors(block, segment.dims)
        here = np.arange(position, position + len(values))
        found = (queries @ values.T) * segment.scales[block]
        if living is not None:
            found[:, ~living[here]] = -np.inf
        joined = np.concatenate([scores, found], axis=1)
        kept = np.argpartition(-joined, NEAREST - 1, axis=1)[:, :NEAREST]
        scores = np.take_along_axis(joined, kept, axis=1)
        places = np.take_along_axis(np.concatenate([places, np.broadcast_to(here, found.shape)], axis=1), kept, axis=1)
    order = np.argsort(-scores, axis=1, kind="stable")
    return np.take_along_axis(places, order, axis=1)
