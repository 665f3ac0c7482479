"""A search of one state of an index: by its graph where there is one, else by a scan from coarse to fine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from demitasse.encoding.scan_kernels import Floats
from demitasse.errors import DataError, MissingExtra
from demitasse.extras import ANN, need
from demitasse.search.filters import Where
from demitasse.search.graph import Graph, positions_of
from demitasse.search.scan import Nearest, Scan, best, cosines_at, nearest
from demitasse.search.snapshot import Snapshot

_MORE = 4  # times as many as are asked for come from the graph, to be compared at full width


def find(snapshot: Snapshot, queries: Floats, k: int, where: Where | None, scan: Scan) -> list[Nearest]:
    """The `k` nearest vectors of each of `queries` that `where` lets through."""
    graph = _graph(snapshot, queries, where, scan)
    if graph is not None:
        return _by_graph(snapshot, graph, queries, k, scan)
    scan = replace(scan, coarse=None) if scan.coarse == "graph" else scan
    narrow = queries.shape[1] < snapshot.dims
    chosen = snapshot.sizes.scan(scan, len(snapshot), k, narrow=narrow)
    first = None if narrow else snapshot.sizes.first(chosen, len(snapshot), k)
    return nearest(snapshot.segments, snapshot.mask(where), queries, k, chosen, first)


def _graph(snapshot: Snapshot, queries: Floats, where: Where | None, scan: Scan) -> Graph | None:
    """The graph, if this search can use it."""
    if scan.coarse == "graph" and snapshot.graph is None:
        raise DataError("this index has no graph; make one: index.compact(graph=True), demitasse index compact --graph")
    if snapshot.graph is None or scan.coarse not in (None, "graph"):
        return None
    if where is not None or queries.shape[1] < snapshot.dims:  # it knows no filters, and only whole vectors
        return None
    try:
        need("a graph", ANN)
    except MissingExtra:
        if scan.coarse == "graph":
            raise
        return None
    return snapshot.graph


def _by_graph(snapshot: Snapshot, graph: Graph, queries: Floats, k: int, scan: Scan) -> list[Nearest]:
    segments, below = snapshot.segments, graph.entry.below
    covered = [segment for segment in segments if segment.rows[0] < below]
    added = segments[len(covered) :]
    offset = sum(map(len, covered))
    mask = None if snapshot.living is None else snapshot.living[offset:]
    new = nearest(added, mask, queries, k, snapshot.sizes.scan(Scan(), sum(map(len, added)), k)) if added else None
    found = []
    for number, rows in enumerate(graph.near(queries, max(scan.shortlist or 0, _MORE * k))):
        places = positions_of(covered, rows)
        if snapshot.living is not None:
            places = places[snapshot.living[places]]
        if new is not None:
            places = np.concatenate([places, new[number].positions + offset])
        places = np.sort(places)
        if len(places) < min(k, len(snapshot)):  # too much of what it found was deleted
            return nearest(segments, snapshot.living, queries, k, snapshot.sizes.scan(Scan(), len(snapshot), k))
        found.append(best(places, cosines_at(segments, places, queries[number]), k))
    return found
