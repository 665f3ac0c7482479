"""Changes of an index: files of vectors are written aside first, then one commit of the catalog makes all visible."""

from __future__ import annotations

import re
import secrets
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from demitasse.encoding.scan_kernels import Floats
from demitasse.errors import DataError
from demitasse.host.leftovers import sweep
from demitasse.host.only_writer import only_writer as only_writer_of
from demitasse.search.catalog import Catalog, SegmentEntry
from demitasse.search.documents import NewDocument
from demitasse.search.filters import Allowed
from demitasse.search.graph import GRAPH, SUFFIX_OF_GRAPHS, GraphEntry
from demitasse.search.segments import Arrays, Layout, Segment, Written, arrays_of, blocks, open_segment, write_segment
from demitasse.search.snapshot import VECTORS

LOCK = "writer.lock"
SUFFIX = ".i8"
NEW_NAME = re.compile(rf"[0-9a-f]{{16}}({re.escape(SUFFIX)}|{re.escape(SUFFIX_OF_GRAPHS)})")  # of files of vectors
NEXT_ID = "next_id"
_SMALL = 1 << 16  # vectors up to which a file is written again together with new ones
_BLOCK = 1 << 14  # vectors in memory at a time


def only_writer(folder: Path) -> AbstractContextManager[None]:
    """Be the only process that changes the index; another one is told so in one sentence."""
    return only_writer_of(folder, LOCK, "an index")


def sweep_vectors(folder: Path, catalog: Catalog) -> None:
    """Remove what processes that were killed have left; only for the one writer."""
    vectors = folder / VECTORS
    sweep(folder)
    sweep(vectors)
    graph = catalog.setting(GRAPH) or {}
    listed = {*(entry.file for entry in catalog.segments()), graph.get("file") if isinstance(graph, dict) else None}
    for path in (*vectors.glob(f"*{SUFFIX}"), *vectors.glob(f"*{SUFFIX_OF_GRAPHS}")):
        if path.name not in listed:
            discard(path)


def discard(path: Path) -> None:
    """Remove a file that is not used any more; where a reader keeps it open (Windows), the next writer does."""
    with suppress(OSError):
        path.unlink()


def add_piece(folder: Path, catalog: Catalog, piece: Sequence[NewDocument], vectors: Floats, began: int) -> list[str]:
    """Write the vectors of a piece, and make it visible; returns its ids.

    An id that was there before row `began` is replaced; one that came later was given twice.
    """
    ids, next_id = _ids(catalog, piece)
    there = catalog.rows_of(ids)
    twice = next((id_ for id_, row in there.items() if row >= began), None) or _twice(ids)
    if twice is not None:
        raise DataError(f"the id {twice!r:.80} was given twice; give each text an id of its own")
    first = catalog.next_row()
    rows = np.arange(first, first + len(piece), dtype=np.int64)
    arrays, absorbed = _with_small_files(folder, catalog, arrays_of(rows, vectors))
    count, dims = len(arrays["rows"]), vectors.shape[1]
    written = write_vectors(folder, Layout(count, dims), {name: [array] for name, array in arrays.items()})
    with catalog.change() as change:
        change.remove_rows(there.values())
        change.drop_segments([entry.number for entry in absorbed], ())
        change.add_documents(
            (row, id_, one.text, one.metadata) for row, id_, one in zip(rows.tolist(), ids, piece, strict=True)
        )
        change.add_segment(written.file, count, written.sha256)
        change.set(NEXT_ID, next_id)
    for entry in absorbed:
        discard(folder / VECTORS / entry.file)
    return ids


def write_vectors(folder: Path, layout: Layout, arrays: Arrays) -> Written:
    """Write a file of vectors under a new name."""
    return write_segment(folder / VECTORS / f"{secrets.token_hex(8)}{SUFFIX}", layout, arrays)


def merged(segments: Sequence[Segment], living: Allowed | None, name: str) -> Iterator[npt.NDArray[Any]]:
    """An array of several files, in parts, without vectors that do not live; bits come column by column."""
    words = range(len(segments[0].bits)) if name == "bits" else [None]
    for word in words:
        for position, segment, block in blocks(segments, _BLOCK):
            array = getattr(segment, name)
            values = array[block] if word is None else array[word, block]
            yield values if living is None else values[living[position : position + len(values)]]


def _with_small_files(
    folder: Path, catalog: Catalog, arrays: dict[str, npt.NDArray[Any]]
) -> tuple[dict[str, npt.NDArray[Any]], list[SegmentEntry]]:
    """New vectors together with those of the last files, as long as these are no larger: so there are never many."""
    absorbed: list[SegmentEntry] = []
    dims = arrays["first"].shape[1] + arrays["rest"].shape[1]
    graph = GraphEntry.of_plain(catalog.setting(GRAPH), folder)
    for entry in reversed(catalog.segments()):
        count = len(arrays["rows"])
        if entry.rows > count or count + entry.rows > _SMALL:
            break
        segment = open_segment(folder / VECTORS, entry, dims)
        if graph is not None and segment.rows[0] < graph.below:
            break
        arrays = {
            name: np.concatenate([getattr(segment, name), array], axis=1 if name == "bits" else 0)
            for name, array in arrays.items()
        }
        absorbed.append(entry)
    return arrays, absorbed


def _ids(catalog: Catalog, piece: Sequence[NewDocument]) -> tuple[list[str], int]:
    """The ids of a piece, and the next number: a text without an id gets one that nobody has taken."""
    remembered = catalog.setting(NEXT_ID)
    number, ids = max(remembered if isinstance(remembered, int) else 0, catalog.next_row() - 1), []
    for one in piece:
        if one.id is None:
            while catalog.rows_of([str(number)]):
                number += 1
            number += 1
        ids.append(str(number - 1) if one.id is None else one.id)
    return ids, number


def _twice(ids: Sequence[str]) -> str | None:
    return next((id_ for id_, count in Counter(ids).items() if count > 1), None)
