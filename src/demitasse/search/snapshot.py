"""What there is to search at one moment: the files of vectors, and which of their rows count."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from demitasse.search.catalog import Catalog
from demitasse.search.columns import Columns
from demitasse.search.filters import Allowed, Where, allowed, canonical, check_where
from demitasse.search.graph import GRAPH, Graph, GraphEntry
from demitasse.search.segments import Segment, open_segment
from demitasse.search.tuning import Sizes

VECTORS = "vectors"  # the folder of the files
SIZES = "sizes"  # the setting of the catalog that holds them
_REMEMBERED = 16  # filters whose answers are kept


class Snapshot:
    """The state of an index; it never changes, and stays usable while others change the index."""

    def __init__(self, folder: Path, catalog: Catalog, dims: int, previous: Snapshot | None = None) -> None:
        there = {} if previous is None else {segment.entry: segment for segment in previous.segments}
        self.segments: list[Segment] = [
            there.get(entry) or open_segment(folder / VECTORS, entry, dims) for entry in catalog.segments()
        ]
        deleted = np.array(sorted(catalog.deleted()), np.int64)
        self.dims = dims
        self._catalog = catalog
        self.rows = sum(map(len, self.segments))  # deleted ones, too
        self.living = _without(self.segments, deleted)  # which of them count; None: all
        self.sizes = Sizes.of_plain(catalog.setting(SIZES), folder)
        entry = GraphEntry.of_plain(catalog.setting(GRAPH), folder)
        known: Graph | None = None if previous is None else previous.graph
        same = known is not None and known.entry == entry
        self.graph: Graph | None = known if same else Graph(folder / VECTORS, entry) if entry else None
        self.columns: Columns = Columns() if previous is None else previous.columns
        self._end = catalog.next_row()
        self._count = self.rows if self.living is None else int(np.count_nonzero(self.living))
        self._lock = threading.Lock()
        self._masks: OrderedDict[str, Allowed] = OrderedDict()

    def __len__(self) -> int:
        return self._count

    def mask(self, where: Where | None) -> Allowed | None:
        """Which of the vectors, counted through all files, a search may find; `None`: all of them."""
        if where is None:
            return self.living
        where = check_where(where)
        key = canonical(where)
        with self._lock:
            if key not in self._masks:
                self._masks[key] = self._filtered(where)
                if len(self._masks) > _REMEMBERED:
                    self._masks.popitem(last=False)
            self._masks.move_to_end(key)
            return self._masks[key]

    def rows_at(self, positions: npt.NDArray[np.int64]) -> list[int]:
        """The rows in the catalog of vectors, counted through all files."""
        ends = np.cumsum([len(segment) for segment in self.segments])
        which = np.searchsorted(ends, positions, side="right")
        return [
            int(self.segments[number].rows[position - ends[number] + len(self.segments[number])])
            for number, position in zip(which, positions, strict=True)
        ]

    def _filtered(self, where: Where) -> Allowed:
        rows = np.concatenate([np.zeros(0, np.int64), *(segment.rows for segment in self.segments)])
        if len(rows) and not 0 <= rows.min() <= rows.max() < self._end:
            raise self._catalog.damaged("lists vectors of rows that were never used")
        matching = allowed(where, lambda field: self.columns.column(field, self._catalog, self._end), self._end)
        mask: Allowed = matching[rows]
        return mask if self.living is None else mask & self.living


def _without(segments: Sequence[Segment], deleted: npt.NDArray[np.int64]) -> Allowed | None:
    if not len(deleted):
        return None
    gone = np.concatenate([np.zeros(0, bool), *(np.isin(segment.rows, deleted) for segment in segments)])
    return ~gone if gone.any() else None
