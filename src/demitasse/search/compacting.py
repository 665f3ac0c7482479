"""Compaction: the vectors of an index written again as one file, without those that were deleted, and measured.

All that is written becomes visible with one commit.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from demitasse.encoding.encoder import Encoder
from demitasse.encoding.scan_kernels import Floats
from demitasse.errors import FullDisk, MissingExtra
from demitasse.extras import ANN, need
from demitasse.search.catalog import Catalog, SegmentEntry
from demitasse.search.graph import BREADTHS, FROM, GRAPH, SUFFIX_OF_GRAPHS, Graph, GraphEntry, build_graph
from demitasse.search.sampling import LEAST, QUERIES, as_plain, of_plain, sample_queries
from demitasse.search.scan import RECALL
from demitasse.search.segments import Layout, Segment, open_segment
from demitasse.search.snapshot import SIZES, VECTORS, Snapshot
from demitasse.search.tuning import NEAREST, Sample, measured
from demitasse.search.writer import discard, merged, write_vectors

_ARRAYS = ("rows", "scales", "first_scales", "bits", "first", "rest")


def compact(
    folder: Path, catalog: Catalog, dims: int, encoder: Encoder | None = None, *, graph: bool | None = None
) -> None:
    """Merge all files of vectors into one, and give back the space of what was deleted; only for the one writer.

    `graph` says whether there is to be one; without it, if there is one already, or many vectors and usearch.
    """
    snapshot = Snapshot(folder, catalog, dims)
    untidy = len(snapshot.segments) > 1 or snapshot.living is not None
    queries = _queries(folder, catalog, snapshot, encoder)
    segments = _merged(folder, snapshot) if untidy else snapshot.segments
    old, new = _files(snapshot.segments, snapshot.graph.entry if snapshot.graph else None), _files(segments, None)
    try:
        sample = None if queries is None else Sample.of(queries, segments, None)
        entry = _graph_of(folder, segments, sample) if segments and _is_wanted(snapshot, graph) else None
        new = _files(segments, entry)
        with catalog.change() as change:
            if untidy:
                change.drop_segments([segment.entry.number for segment in snapshot.segments], catalog.deleted())
                for segment in segments:
                    change.add_segment(segment.entry.file, len(segment), segment.entry.sha256)
            if sample is not None:
                change.set(SIZES, measured(sample, segments, None).as_plain())
                change.set(QUERIES, as_plain(sample.queries))
            change.set(GRAPH, None if entry is None else entry.as_plain())
    except BaseException:
        _discard(folder, new - old)
        raise
    _discard(folder, old - new)
    if snapshot.living is not None:
        with suppress(FullDisk):  # to give space back takes some first
            catalog.shrink()


def _files(segments: Sequence[Segment], graph: GraphEntry | None) -> set[str]:
    return {*(segment.entry.file for segment in segments), *([] if graph is None else [graph.file])}


def _discard(folder: Path, files: set[str]) -> None:
    for file in files:
        discard(folder / VECTORS / file)


def measure(folder: Path, catalog: Catalog, dims: int, encoder: Encoder) -> None:
    """Measure how long a shortlist must be, and keep the answer."""
    snapshot = Snapshot(folder, catalog, dims)
    queries = _queries(folder, catalog, snapshot, encoder)
    if queries is not None:
        sample = Sample.of(queries, snapshot.segments, snapshot.living)
        sizes = measured(sample, snapshot.segments, snapshot.living)
        with catalog.change() as change:
            change.set(SIZES, sizes.as_plain())
            change.set(QUERIES, as_plain(queries))


def _merged(folder: Path, snapshot: Snapshot) -> list[Segment]:
    """All vectors that count, in one new file that is not listed yet; none if there are none."""
    if not len(snapshot):
        return []
    arrays = {name: merged(snapshot.segments, snapshot.living, name) for name in _ARRAYS}
    written = write_vectors(folder, Layout(len(snapshot), snapshot.dims), arrays)
    return [open_segment(folder / VECTORS, SegmentEntry(0, written.file, len(snapshot), written.sha256), snapshot.dims)]


def _queries(folder: Path, catalog: Catalog, snapshot: Snapshot, encoder: Encoder | None) -> Floats | None:
    """The queries to measure with: new ones if there is an encoder, else those that were kept, if there are any."""
    if len(snapshot) < LEAST:
        return None
    if encoder is not None:
        return sample_queries(snapshot, catalog, encoder)
    kept = of_plain(catalog.setting(QUERIES), folder)
    return kept if kept is not None and kept.shape[1] == snapshot.dims else None


def _is_wanted(snapshot: Snapshot, graph: bool | None) -> bool:  # noqa: FBT001 - it may be None
    if graph is not None:
        return graph
    if len(snapshot) < FROM and snapshot.graph is None:
        return False
    try:
        need("a graph", ANN)
    except MissingExtra:
        return False
    return True


def _graph_of(folder: Path, segments: Sequence[Segment], sample: Sample | None) -> GraphEntry:
    """A new graph, with the least breadth that finds as many of the true nearest vectors as a search wants."""
    path = folder / VECTORS / f"{secrets.token_hex(8)}{SUFFIX_OF_GRAPHS}"
    graph = Graph(folder / VECTORS, build_graph(path, segments))
    if sample is None:
        return graph.entry
    rows = np.concatenate([segment.rows for segment in segments])
    recall = 0.0
    for breadth in BREADTHS:
        found = graph.near(sample.queries, 4 * NEAREST, breadth)
        both = [len(np.intersect1d(rows[true], near)) for true, near in zip(sample.true, found, strict=True)]
        recall = round(sum(both) / sample.true.size, 4)
        if recall >= RECALL:
            break
    return replace(graph.entry, breadth=breadth, recall=recall)
