"""`verify`: everything in the folder of an index, compared with everything else in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from demitasse.encoding.manifest import sha256_of
from demitasse.encoding.scan_kernels import scales_of, sign_bits
from demitasse.errors import FolderError, file_reason
from demitasse.host.leftovers import is_leftover
from demitasse.search.catalog import CATALOG, JOURNAL, Catalog
from demitasse.search.description import DESCRIPTION, Description
from demitasse.search.graph import GRAPH, GraphEntry
from demitasse.search.sampling import QUERIES, of_plain
from demitasse.search.segments import FIRST_DIMS, Segment, blocks, open_segment
from demitasse.search.snapshot import SIZES, VECTORS
from demitasse.search.tuning import Sizes
from demitasse.search.writer import LOCK, NEW_NAME

_BLOCK = 1 << 14  # vectors in memory at a time
_TRIES = 3  # to find an index that nobody changes meanwhile
_OTHER = "is not the file that was written (its sha256 is not the one in the catalog)"
_Rows = npt.NDArray[np.int64]


def faults(folder: Path) -> dict[str, str]:
    """What is wrong with each file, by name; nothing if the index is whole."""
    try:
        description = Description.read(folder)
    except FolderError as problem:
        return {DESCRIPTION: _what(problem, folder / DESCRIPTION)}
    try:
        catalog = Catalog(folder)
    except FolderError as problem:
        return {CATALOG: _what(problem, folder / CATALOG)}
    try:
        for _ in range(_TRIES):
            version = catalog.version()
            found = _faults(folder, catalog, description.cut.dims)
            if not found or catalog.version() == version:
                break
        return dict(sorted(found.items()))
    finally:
        catalog.close()


def _faults(folder: Path, catalog: Catalog, dims: int) -> dict[str, str]:
    try:
        damaged = catalog.integrity()
        if damaged:
            return {CATALOG: f"is damaged ({damaged[0]})"}
        Sizes.of_plain(catalog.setting(SIZES), folder)
        of_plain(catalog.setting(QUERIES), folder)
        graph = GraphEntry.of_plain(catalog.setting(GRAPH), folder)
        entries, deleted = catalog.segments(), np.array(catalog.deleted(), np.int64)
        texts = np.array([row for row, _ in catalog.each_document()], np.int64)
    except FolderError as problem:
        return {CATALOG: _what(problem, folder / CATALOG)}
    found: dict[str, str] = {}
    rows = [np.zeros(0, np.int64)]
    for entry in entries:
        name = f"{VECTORS}/{entry.file}"
        try:
            segment = open_segment(folder / VECTORS, entry, dims)
            rows.append(np.asarray(segment.rows))
            fault = _OTHER if sha256_of(folder / name) != entry.sha256 else _inside(segment)
        except FolderError as problem:
            fault = _what(problem, folder / name)
        if fault is not None:
            found[name] = fault
    if graph is not None:
        found |= _graph_fault(folder, graph)
    known = {DESCRIPTION, CATALOG, JOURNAL, LOCK, *(f"{VECTORS}/{entry.file}" for entry in entries)}
    known |= {f"{VECTORS}/{graph.file}"} if graph is not None else set()
    found |= {name: "does not belong to the index" for name in _names(folder) if name not in known}
    if not found:
        fault = _between(np.concatenate(rows), texts, deleted)
        found |= {} if fault is None else {CATALOG: fault}
    return found


def _inside(segment: Segment) -> str | None:
    """What is wrong with the arrays of a file, compared with one another."""
    for _, _, block in blocks([segment], _BLOCK):
        values = segment.vectors(block, segment.dims)
        if not np.allclose(segment.scales[block], scales_of(values), rtol=1e-4):
            return "has scales that do not fit its vectors"
        if not np.allclose(segment.first_scales[block], scales_of(values[:, :FIRST_DIMS]), rtol=1e-4):
            return "has scales that do not fit the first dims of its vectors"
        if not np.array_equal(segment.bits[:, block], sign_bits(values)):
            return "has bits that do not fit its vectors"
    return None


def _between(vectors: _Rows, texts: _Rows, deleted: _Rows) -> str | None:
    """What is wrong between the rows of vectors, of texts and of what was deleted."""
    if (np.diff(vectors) <= 0).any():
        return "lists files whose rows do not ascend"
    both = np.intersect1d(texts, deleted)
    if len(both):
        return f"has row {both[0]} among the texts and among what was deleted"
    without_vector = np.setdiff1d(texts, vectors)
    if len(without_vector):
        return f"has {len(without_vector)} texts without a vector, such as row {without_vector[0]}"
    without_text = np.setdiff1d(vectors, np.concatenate([texts, deleted]))
    if len(without_text):
        return f"has no text for {len(without_text)} vectors, such as that of row {without_text[0]}"
    nowhere = np.setdiff1d(deleted, vectors)
    return f"says that row {nowhere[0]} was deleted, which has no vector" if len(nowhere) else None


def _graph_fault(folder: Path, graph: GraphEntry) -> dict[str, str]:
    name = f"{VECTORS}/{graph.file}"
    try:
        return {} if sha256_of(folder / name) == graph.sha256 else {name: _OTHER}
    except (OSError, ValueError) as problem:
        return {name: f"cannot be read ({file_reason(problem)})"}


def _names(folder: Path) -> Iterator[str]:
    """The files of a folder, without those that a process is about to list, or was killed before it could."""
    for path in sorted(folder.rglob("*")):
        if not (path.is_dir() or is_leftover(path) or (path.parent.name == VECTORS and NEW_NAME.fullmatch(path.name))):
            yield path.relative_to(folder).as_posix()


def _what(problem: FolderError, path: Path) -> str:
    """A sentence about a file without its name and without the cure."""
    return str(problem).removeprefix(f"{path}: ").removeprefix(f"{path} ").rpartition("; ")[0]
