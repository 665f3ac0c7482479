"""How fast a million vectors are searched, and what is found: exact float32 in numpy against an index, coarse to fine.

    python research/search_scans.py --texts sentences.txt.gz more.jsonl.gz … --json …/search-scans.json

Two sets of vectors of 384 dims: sentences (all strings of the files, split into sentences) encoded by the built-in
model with no layers, and points scattered around 10,000 random centres. Queries are further ones of the same kind.
Methods take turns, --rounds times; the median counts. The kernels that were tried come last.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import demitasse as dt
from demitasse.encoding import scan_kernels as kernels
from demitasse.encoding.vectors import store, unit_length
from demitasse.host.machine import machine, versions
from demitasse.search.catalog import Catalog
from demitasse.search.compacting import compact
from demitasse.search.description import Description
from demitasse.search.documents import NewDocument
from demitasse.search.writer import add_piece

HELD_OUT, SCORED, DIMS = 300, 200, 384
PIECE = 1 << 16


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--texts", nargs="+", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--vectors", type=Path, help="Keep the vectors of the sentences in this .npy file.")
    parser.add_argument("--json", type=Path, required=True)
    given = parser.parse_args()
    results: dict[str, Any] = {"machine": machine(), "versions": versions(), "rows": given.rows, "sets": {}}
    for name in ("sentences", "clusters"):
        vectors = sentences(given) if name == "sentences" else clusters(given.rows + HELD_OUT)
        results["sets"][name] = measured(vectors[HELD_OUT:], vectors[:HELD_OUT], given.rounds)
        if name == "sentences":
            results["kernels"] = tried(vectors[HELD_OUT:], vectors[0], given.rounds)
            results["cells"] = cells(vectors[HELD_OUT:], vectors[:SCORED])
        given.json.write_text(json.dumps(results, indent=1) + "\n")


def sentences(given: argparse.Namespace) -> np.ndarray:
    if given.vectors is not None and given.vectors.exists():
        return np.load(given.vectors)
    texts = list(dict.fromkeys(text for path in given.texts for text in sentences_in(path)))
    chosen = np.random.default_rng(0).permutation(len(texts))[: given.rows + HELD_OUT]
    vectors = dt.load().cut(layers=0).encode([texts[place] for place in chosen])
    if given.vectors is not None:
        np.save(given.vectors, vectors)
    return vectors


def sentences_in(path: Path) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            values = json.loads(line) if ".jsonl" in path.name else [line]
            for value in values.values() if isinstance(values, dict) else values:
                for text in value if isinstance(value, list) else [value]:
                    if isinstance(text, str):
                        yield from (part for part in re.split(r"(?<=[.!?])\s+", text.strip()) if len(part) > 20)


def clusters(count: int) -> np.ndarray:
    chance = np.random.default_rng(0)
    centres = unit_length(chance.standard_normal((10_000, DIMS)))
    vectors = np.empty((count, DIMS), np.float32)
    for start in range(0, count, PIECE):
        size = min(PIECE, count - start)
        noise = chance.standard_normal((size, DIMS)).astype(np.float32) / np.sqrt(DIMS)
        vectors[start : start + size] = unit_length(centres[chance.integers(0, 10_000, size)] + noise)
    return vectors


def indexed(folder: Path, vectors: np.ndarray, queries: np.ndarray) -> dt.Index:
    """An index of vectors that are there already; `queries` are what its shortlists are measured with."""
    from demitasse.search import compacting

    (folder / "vectors").mkdir(parents=True)
    Description.of(dt.load().cut(layers=0)).write(folder)
    catalog = Catalog.create(folder)
    for start in range(0, len(vectors), PIECE):
        some = vectors[start : start + PIECE]
        add_piece(
            folder, catalog, [NewDocument(f"text {start + place}", None, None) for place in range(len(some))], some, 1
        )
    compacting._queries = lambda *given: queries  # type: ignore[assignment]
    compact(folder, catalog, DIMS, graph=False)
    catalog.close()
    return dt.Index.open(folder)


def measured(base: np.ndarray, held_out: np.ndarray, rounds: int) -> dict[str, Any]:
    queries, sample = held_out[:SCORED], held_out[SCORED:][:64]
    true = [set(np.argpartition(-(base @ query), 10)[:10]) for query in queries]
    with tempfile.TemporaryDirectory() as place:
        began = time.perf_counter()
        index = indexed(Path(place) / "index", base, sample)
        seconds = time.perf_counter() - began
        facts = index.info()
        methods: dict[str, Callable[[np.ndarray], object]] = {
            "exact float32": lambda some: [np.argpartition(-scores, 10)[:10] for scores in (base @ some.T).T],
            "none": lambda some: index.search_vectors(some, scan=dt.Scan("none")),
        }
        for coarse in ("bits", "dims"):
            for recall in (0.95, 0.99):
                scan = dt.Scan(coarse, recall)
                methods[f"{coarse} {recall}"] = lambda some, scan=scan: index.search_vectors(some, scan=scan)
        rows, times = [], {}
        for count in (1, 16):
            times |= in_turns(methods, queries, count, rounds if count == 1 else max(3, rounds // 6))
        for name in methods:
            found = 1.0 if name == "exact float32" else _recall(methods[name], queries, true)
            each = {str(count): round(times[name, count], 3) for count in (1, 16)}
            rows.append({"method": name, "recall": round(found, 4), "ms": each})
            print(rows[-1], flush=True)
    return {
        "build_seconds": round(seconds, 1),
        "bytes_per_vector": facts["bytes"]["vectors"] / len(base),
        "float32_bytes": 4 * DIMS,
        "shortlists": facts["measured"]["shortlists"],
        "methods": rows,
    }


def in_turns(
    methods: dict[str, Callable[[np.ndarray], object]], queries: np.ndarray, count: int, rounds: int
) -> dict[tuple[str, int], float]:
    """Milliseconds for one of `count` queries that are asked together: the median over rounds."""
    times: dict[str, list[float]] = {name: [] for name in methods}
    for number in range(-1, rounds):
        start = count * number % (len(queries) - count)
        for name, method in methods.items():
            began = time.perf_counter()
            method(queries[start : start + count])
            if number >= 0:
                times[name].append(time.perf_counter() - began)
    return {(name, count): 1000 * float(np.median(taken)) / count for name, taken in times.items()}


def _recall(method: Callable[[np.ndarray], object], queries: np.ndarray, true: list[set[int]]) -> float:
    found: Any = method(queries)
    ids = [{int(hit.id) for hit in hits} for hits in found]
    return float(np.mean([len(one & right) / 10 for one, right in zip(ids, true, strict=True)]))


def tried(base: np.ndarray, query: np.ndarray, rounds: int) -> dict[str, float]:
    """Milliseconds of one pass over all vectors for one query, by each kernel that was tried."""
    first = np.ascontiguousarray(store(base[:, :64], "int8"))
    columns = np.concatenate(
        [kernels.sign_bits(base[start : start + PIECE]) for start in range(0, len(base), PIECE)], 1
    )
    rows, narrow = np.ascontiguousarray(columns.T), np.ascontiguousarray(base[:, :64])
    asked, product = kernels.sign_bits(query[None])[:, 0], kernels.as_int8_query(query[None, :64])
    out = np.empty(len(base), np.uint16)

    def first_products() -> None:
        for start in range(0, len(first), PIECE):
            kernels.first_products(first[start : start + PIECE], product)

    passes: dict[str, Callable[[], object]] = {
        "float32, 384 dims, numpy": lambda: base @ query,
        "float32, 64 dims, numpy": lambda: narrow @ query[:64],
        "int8, 64 dims, onnxruntime, one core": first_products,
        "bits by row, numpy": lambda: np.bitwise_count(rows ^ asked).sum(axis=1),
        "bits by column, numpy, one core": lambda: kernels.bit_distances(columns, asked, out),
        "argpartition of the scores": lambda: np.argpartition(out, 1000)[:1000],
        "smallest, by a sample": lambda: kernels.smallest(out, 1000, 65535.0),
    }
    times: dict[str, list[float]] = {name: [] for name in passes}
    for number in range(rounds + 1):
        for name, run in passes.items():
            began = time.perf_counter()
            run()
            if number:
                times[name].append(time.perf_counter() - began)
    return {name: round(1000 * float(np.median(taken)), 2) for name, taken in times.items()}


def cells(base: np.ndarray, queries: np.ndarray, count: int = 1024) -> dict[str, Any]:
    """What k-means cells would save: the share of all vectors in the cells that must be looked at for a recall."""
    chance, began = np.random.default_rng(0), time.perf_counter()
    sample = base[chance.choice(len(base), 40 * count, replace=False)]
    centres = sample[:count].copy()
    for _ in range(5):
        nearest = _nearest(sample, centres)
        sums = np.zeros_like(centres)
        np.add.at(sums, nearest, sample)
        centres = unit_length(np.where(sums.any(axis=1, keepdims=True), sums, centres))
    cell = _nearest(base, centres)
    seconds, sizes = time.perf_counter() - began, np.bincount(cell, minlength=count)
    order = np.argsort(-(queries @ centres.T), axis=1)
    ranks = np.argsort(order, axis=1)
    needed = []
    for number, query in enumerate(queries):
        needed += ranks[number, cell[np.argpartition(-(base @ query), 10)[:10]]].tolist()
    needed.sort()
    shares = {}
    for recall in (0.95, 0.98, 0.99):
        probed = needed[int(np.ceil(recall * len(needed))) - 1] + 1
        shares[str(recall)] = round(float(np.mean([sizes[one[:probed]].sum() for one in order])) / len(base), 4)
    return {"cells": count, "seconds": round(seconds, 1), "share_looked_at": shares}


def _nearest(vectors: np.ndarray, centres: np.ndarray) -> np.ndarray:
    return np.concatenate([(vectors[a : a + 16384] @ centres.T).argmax(axis=1) for a in range(0, len(vectors), 16384)])


if __name__ == "__main__":
    main()
