"""Ways to find the nearest vectors, for benchmarks/search.py: each is built into a folder, opened from it, and asked.

`vectors` (n, d) are of unit length; an answer is the rows of the 10 nearest. A `breadth` is how much of its index a
query looks at, for which each library has a name of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import demitasse as dt

NEAREST = 10
PIECE = 1 << 16
Answer = Callable[[np.ndarray], "list[int]"]  # the rows nearest to one query
Build = Callable[[np.ndarray, Path, list[str], int], None]  # vectors, folder, their texts, layers
Open = Callable[[Path, "int | None"], Answer]  # folder, breadth


@dataclass(frozen=True)
class Method:
    """A way to search; `breadths` are tried in turn until enough is found, the first is the library's default."""

    name: str
    build: Build
    open: Open
    breadths: tuple[int | None, ...] = (None,)
    folder: str = ""  # several methods may search what one of them has built


def numpy_build(vectors: np.ndarray, folder: Path, texts: list[str], layers: int) -> None:
    np.save(folder / "vectors.npy", vectors)


def numpy_open(folder: Path, breadth: int | None) -> Answer:
    base = np.load(folder / "vectors.npy")

    def answer(query: np.ndarray) -> list[int]:
        scores = base @ query
        best = np.argpartition(-scores, NEAREST)[:NEAREST]
        return best[np.argsort(-scores[best])].tolist()

    return answer


def faiss_build(make: str, vectors: np.ndarray, folder: Path, texts: list[str], layers: int) -> None:
    import faiss

    index = faiss.index_factory(vectors.shape[1], make, faiss.METRIC_INNER_PRODUCT)
    if not index.is_trained:
        chosen = np.random.default_rng(0).permutation(len(vectors))[: 40 * 1024]
        index.train(vectors[np.sort(chosen)])
    index.add(vectors)
    faiss.write_index(index, str(folder / "index.faiss"))


def faiss_open(folder: Path, breadth: int | None) -> Answer:
    import faiss

    index = faiss.read_index(str(folder / "index.faiss"))
    if breadth is not None:
        found = faiss.downcast_index(index)
        if hasattr(found, "hnsw"):
            found.hnsw.efSearch = breadth
        else:
            found.nprobe = breadth
    return lambda query: index.search(query[None], NEAREST)[1][0].tolist()


def usearch_build(dtype: str, vectors: np.ndarray, folder: Path, texts: list[str], layers: int) -> None:
    from usearch.index import Index

    index = Index(ndim=vectors.shape[1], metric="cos", dtype=dtype)
    for start in range(0, len(vectors), PIECE):
        some = vectors[start : start + PIECE]
        index.add(np.arange(start, start + len(some)), some)
    index.save(str(folder / "index.usearch"))


def usearch_open(folder: Path, breadth: int | None) -> Answer:
    from usearch.index import Index

    index = Index.restore(str(folder / "index.usearch"))
    if breadth is not None:
        index.expansion_search = breadth
    return lambda query: index.search(query, NEAREST).keys.tolist()


def sqlite_vec_build(kind: str, vectors: np.ndarray, folder: Path, texts: list[str], layers: int) -> None:
    connection = _sqlite_vec(folder)
    connection.execute(f"CREATE VIRTUAL TABLE v USING vec0(vector {kind}[{vectors.shape[1]}] distance_metric=cosine)")
    wrap = {"float": "?", "int8": "vec_int8(?)"}[kind]
    with connection:
        for start in range(0, len(vectors), PIECE):
            stored = _sqlite_vec_bytes(kind, vectors[start : start + PIECE])
            rows = ((start + number, one.tobytes()) for number, one in enumerate(stored))
            connection.executemany(f"INSERT INTO v(rowid, vector) VALUES (?, {wrap})", rows)
    connection.close()


def sqlite_vec_open(kind: str, folder: Path, breadth: int | None) -> Answer:
    connection = _sqlite_vec(folder)
    wrap = {"float": "?", "int8": "vec_int8(?)"}[kind]
    asked = f"SELECT rowid FROM v WHERE vector MATCH {wrap} AND k = {NEAREST} ORDER BY distance"

    def answer(query: np.ndarray) -> list[int]:
        (stored,) = _sqlite_vec_bytes(kind, query[None])
        return [row for (row,) in connection.execute(asked, (stored.tobytes(),))]

    return answer


def _sqlite_vec_bytes(kind: str, vectors: np.ndarray) -> np.ndarray:
    return vectors.astype(np.float32) if kind == "float" else np.asarray(dt.store(vectors, "int8"))


def _sqlite_vec(folder: Path) -> Any:
    """Python's own sqlite3 is often built without extensions."""
    import apsw
    import sqlite_vec

    connection = apsw.Connection(str(folder / "vectors.sqlite"))
    connection.enable_load_extension(True)  # noqa: FBT003
    connection.load_extension(sqlite_vec.loadable_path())
    return connection


def ours_build(graph: bool, vectors: np.ndarray, folder: Path, texts: list[str], layers: int) -> None:  # noqa: FBT001
    """As `Index.build` does it, from vectors that are there already."""
    from demitasse.search.catalog import Catalog
    from demitasse.search.compacting import compact
    from demitasse.search.description import Description
    from demitasse.search.documents import NewDocument
    from demitasse.search.writer import add_piece

    encoder = dt.load().cut(layers, vectors.shape[1])
    (folder / "vectors").mkdir()
    Description.of(encoder).write(folder)
    catalog = Catalog.create(folder)
    for start in range(0, len(vectors), PIECE):
        piece = [NewDocument(text, None, None) for text in texts[start : start + PIECE]]
        add_piece(folder, catalog, piece, vectors[start : start + PIECE], 1)
    compact(folder, catalog, vectors.shape[1], encoder, graph=graph)
    catalog.close()


def ours_open(scan: dt.Scan, folder: Path, breadth: int | None) -> Answer:
    index = dt.Index.open(folder)
    return lambda query: [int(hit.id) for hit in index.search_vectors(query, NEAREST, scan=scan)[0]]


def _ours(name: str, *, graph: bool = False, **scan: Any) -> Method:
    opened = partial(ours_open, dt.Scan(**scan))
    return Method(f"demitasse, {name}", partial(ours_build, graph), opened, folder="graph" if graph else "index")


_HNSW = (None, 32, 64, 128, 256, 512, 1024)
METHODS = {
    method.name: method
    for method in (
        Method("numpy, exact float32", numpy_build, numpy_open),
        _ours("bits first", coarse="bits"),
        _ours("bits first, recall 0.999", coarse="bits", recall=0.999),
        _ours("64 dims first", coarse="dims"),
        _ours("all in full", coarse="none"),
        _ours("graph", graph=True, coarse="graph"),
        Method("faiss, flat", partial(faiss_build, "Flat"), faiss_open),
        Method("faiss, flat SQ8", partial(faiss_build, "SQ8"), faiss_open),
        Method("faiss, IVF1024", partial(faiss_build, "IVF1024,Flat"), faiss_open, (None, 4, 8, 16, 32, 64, 128)),
        Method("faiss, HNSW32", partial(faiss_build, "HNSW32,Flat"), faiss_open, _HNSW),
        Method("usearch, float32", partial(usearch_build, "f32"), usearch_open, _HNSW),
        Method("usearch, int8", partial(usearch_build, "i8"), usearch_open, _HNSW),
        Method("sqlite-vec, float32", partial(sqlite_vec_build, "float"), partial(sqlite_vec_open, "float")),
        Method("sqlite-vec, int8", partial(sqlite_vec_build, "int8"), partial(sqlite_vec_open, "int8")),
    )
}
