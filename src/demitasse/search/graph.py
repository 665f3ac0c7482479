"""A graph of near neighbours, for more vectors than a scan gets through in time: the extra `ann`, which is usearch.

It is a file beside those of the vectors, built from all that were there, and holds a copy of them. It answers searches
without a filter; what was added since is scanned, and what was deleted since is left out. A search follows its edges
by offsets in the file, so that its sha256 is compared before it is first used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from demitasse.encoding.manifest import sha256_of
from demitasse.encoding.scan_kernels import Floats
from demitasse.encoding.vectors import store
from demitasse.errors import FolderError, file_reason, reason
from demitasse.extras import ANN, need
from demitasse.host.atomic import new_file
from demitasse.host.fields import Fields
from demitasse.search.catalog import CATALOG
from demitasse.search.segments import Rows, Segment, blocks, is_file_name

GRAPH = "graph"  # the setting of the catalog that describes it
SUFFIX_OF_GRAPHS = ".usearch"
FROM = 1_000_000  # vectors from which on a graph is worth its space
_CURE = "run demitasse index compact to make it again"
_BLOCK = 1 << 14  # vectors in memory at a time
_EDGES = 16  # of each vector; twice as many on the lowest level
_LOOKED_AT = 128  # vectors that are looked at to place a new one
_THREADS = 1  # with more, usearch 2.26 leaves vectors that no search reaches (unum-cloud/USearch#735)
BREADTHS = (32, 64, 128, 256, 512, 1024)  # vectors that a search keeps looking at: more take longer and find more


@dataclass(frozen=True)
class GraphEntry:
    """What the catalog says of the graph."""

    file: str
    sha256: str
    below: int  # it has all vectors whose rows are below this one
    breadth: int = BREADTHS[-1]
    recall: float | None = None  # that was measured with it

    def as_plain(self) -> dict[str, Any]:
        """Plain values for the catalog."""
        return asdict(self)

    @classmethod
    def of_plain(cls, plain: Any, folder: Path) -> GraphEntry | None:
        """What `as_plain` gave; there is no graph if it is `None`."""
        if plain is None:
            return None
        fields = Fields(plain, folder / CATALOG, _CURE, at=GRAPH)
        file = fields.text("file")
        if not is_file_name(file):
            raise fields.problem(f"names the graph {file!a:.60}, which cannot be")
        recall = fields.number("recall") if fields.has("recall") else None
        breadth = fields.whole("breadth", least=1, most=1 << 16)
        return cls(file, fields.text("sha256"), fields.whole("below", least=1), breadth, recall)


def build_graph(path: Path, segments: Sequence[Segment]) -> GraphEntry:
    """Write a graph of all vectors aside, and move it into place."""
    need("a graph of near neighbours", ANN)
    from usearch.index import Index as Usearch

    dims = segments[0].dims
    made = Usearch(ndim=dims, metric="cos", dtype="i8", connectivity=_EDGES, expansion_add=_LOOKED_AT)
    for _, segment, block in blocks(segments, _BLOCK):
        vectors = segment.vectors(block, dims).astype(np.int8)
        made.add(np.asarray(segment.rows[block], np.uint64), vectors, threads=_THREADS)
    with new_file(path) as file:
        try:
            made.save(file.name)  # which opens that name itself; what it wrote is synced and moved as if it were ours
        except RuntimeError as problem:
            raise FolderError(f"cannot write {path} ({reason(problem)}); check the disk and try again") from problem
    return GraphEntry(path.name, sha256_of(path), int(segments[-1].rows[-1]) + 1)


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph that is there; it is opened when it is first searched."""

    folder: Path
    entry: GraphEntry

    @property
    def bytes(self) -> int:
        """The size of its file."""
        path = self.folder / self.entry.file
        try:
            return path.stat().st_size
        except (OSError, ValueError) as problem:  # a damaged catalog may have a name that no file can have
            raise FolderError(f"{path} cannot be read ({file_reason(problem)}); {_CURE}") from problem

    def near(self, queries: Floats, count: int, breadth: int | None = None) -> list[Rows]:
        """The rows of about `count` vectors near each of `queries`."""
        opened = self._opened
        opened.expansion_search = breadth or max(self.entry.breadth, count)
        found = [opened.search(query, count, threads=1) for query in store(queries, "int8")]
        return [np.asarray(one.keys, np.int64) for one in found]

    @cached_property
    def _opened(self) -> Any:
        need(f"the graph of {self.folder.parent}", ANN)
        from usearch.index import Index as Usearch

        path = self.folder / self.entry.file
        try:
            if sha256_of(path) != self.entry.sha256:
                raise FolderError(f"{path} is not the file that was written (its sha256 differs); {_CURE}")
            return Usearch.restore(path, view=True)
        except FolderError:
            raise
        except Exception as problem:  # usearch raises RuntimeError for whatever is wrong
            raise FolderError(f"{path} cannot be read ({reason(problem)}); {_CURE}") from problem


def positions_of(segments: Sequence[Segment], rows: Rows) -> npt.NDArray[np.int64]:
    """Where `rows` are, counted through all files, in order; those that are nowhere are left out.

    Rows ascend through all files, since each file is written after the ones before it.
    """
    found, offset = [np.zeros(0, np.int64)], 0
    wanted = np.sort(rows)
    for segment in segments:
        places = np.searchsorted(segment.rows, wanted)
        there = places < len(segment)
        there[there] = segment.rows[places[there]] == wanted[there]
        found.append(places[there] + offset)
        offset += len(segment)
    return np.concatenate(found)
