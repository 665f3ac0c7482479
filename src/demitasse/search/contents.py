"""Everything that an index holds, in memory: for those who take it elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from demitasse.cut import Cut
from demitasse.encoding.scan_kernels import Int8
from demitasse.encoding.spaces import Space
from demitasse.search.catalog import Catalog
from demitasse.search.description import Description
from demitasse.search.snapshot import Snapshot


@dataclass(frozen=True, eq=False)
class Contents:
    """The texts of an index in the order of their vectors."""

    cut: Cut
    space: Space
    ids: list[str]
    texts: list[str]
    vectors: Int8  # (texts, dims), as they are stored


def contents(folder: Path) -> Contents:
    """What the index in `folder` holds now, without what was deleted."""
    description = Description.read(folder)
    catalog = Catalog(folder)
    try:
        return catalog.in_one_state(lambda: _read(folder, catalog, description))
    finally:
        catalog.close()


def _read(folder: Path, catalog: Catalog, description: Description) -> Contents:
    dims = description.cut.dims
    snapshot = Snapshot(folder, catalog, dims)
    living = np.ones(snapshot.rows, bool) if snapshot.living is None else snapshot.living
    rows = snapshot.rows_at(np.flatnonzero(living))
    documents = dict(catalog.each_document())
    absent = next((row for row in rows if row not in documents), None)
    if absent is not None or len(rows) != len(documents):
        raise catalog.damaged("has other texts than the files of vectors")
    parts = [np.concatenate([segment.first, segment.rest], axis=1) for segment in snapshot.segments]
    vectors: Int8 = np.concatenate([np.zeros((0, dims), np.int8), *parts])[living]
    found = [documents[row] for row in rows]
    return Contents(description.cut, description.space, [one.id for one in found], [one.text for one in found], vectors)
