"""What a search over many vectors should read first: the time of each pass, and how many vectors it must keep.

    python research/search_scans.py FOLDER/vectors-1000400-1.npy --json research/results/search-scans.json

The vectors are those that benchmarks/search.py leaves in its folder; the first 400 are queries. Passes take turns.
`needed` is how far down a pass puts the share named of the 10 nearest by exact float32 search; `cells` is the share of
all vectors in the k-means cells that must be looked at for a recall.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from demitasse.encoding import scan_kernels as kernels
from demitasse.encoding.vectors import store, unit_length
from demitasse.host.machine import machine, versions

BY_ROW = "bits by row"
QUERIES, HELD_OUT, NEAREST = 200, 400, 10
RECALLS = (0.9, 0.95, 0.98, 0.99, 0.995)
PIECE = 1 << 16


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("vectors", type=Path)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--json", type=Path, required=True)
    given = parser.parse_args()
    vectors = np.load(given.vectors)
    base, queries = vectors[HELD_OUT:], vectors[:QUERIES]
    true = np.concatenate([nearest(base, queries[start : start + 50]) for start in range(0, QUERIES, 50)])
    ways = passes(base)
    results = {
        "machine": machine(),
        "versions": versions(),
        "rows": len(base),
        "passes": measured(ways, queries, true, given.rounds),
        "shortlists": shortlists(base, queries[0], given.rounds),
        "cells": cells(base, queries, true),
    }
    given.json.write_text(json.dumps(results, indent=1) + "\n")


def nearest(base: np.ndarray, queries: np.ndarray) -> np.ndarray:
    return np.argpartition(-(queries @ base.T), NEAREST, axis=1)[:, :NEAREST]


def passes(base: np.ndarray) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """Ways to give every vector a cost, less is nearer."""
    stored = store(base, "int8")
    columns = np.concatenate([kernels.sign_bits(stored[a : a + PIECE]) for a in range(0, len(base), PIECE)], axis=1)
    rows = np.ascontiguousarray(columns.T)
    first, narrow = np.ascontiguousarray(stored[:, :64]), np.ascontiguousarray(base[:, :64])
    scales = kernels.scales_of(first)

    def by_columns(words: int) -> Callable[[np.ndarray], np.ndarray]:
        costs = np.empty(len(base), np.uint8 if words < 4 else np.uint16)

        def run(query: np.ndarray) -> np.ndarray:
            kernels.bit_distances(columns[:words], kernels.sign_bits(query[None])[:words, 0], costs)
            return costs

        return run

    def products(query: np.ndarray) -> np.ndarray:
        asked = kernels.as_int8_query(query[None, :64])
        parts = [kernels.first_products(first[a : a + PIECE], asked) for a in range(0, len(first), PIECE)]
        return -np.concatenate(parts)[:, 0].astype(np.float32)

    return {
        "float32, all dims": lambda query: -(base @ query),
        "float32, 64 dims": lambda query: -(narrow @ query[:64]),
        "int8, 64 dims, product": products,
        "int8, 64 dims, cosine": lambda query: products(query) * scales,
        BY_ROW: lambda query: np.bitwise_count(rows ^ kernels.sign_bits(query[None])[:, 0]).sum(axis=1),
        **{f"bits by column, first {64 * words}": by_columns(words) for words in range(1, len(columns) + 1)},
    }


def measured(
    ways: dict[str, Callable[[np.ndarray], np.ndarray]], queries: np.ndarray, true: np.ndarray, rounds: int
) -> dict[str, Any]:
    times: dict[str, list[float]] = {name: [] for name in ways}
    ranks: dict[str, list[int]] = {name: [] for name in ways}
    for number, (query, places) in enumerate(zip(queries, true, strict=True)):
        for name, way in ways.items():
            if number > rounds and name == BY_ROW:
                continue
            began = time.perf_counter()
            costs = way(query)
            if 0 < number <= rounds:
                times[name].append(time.perf_counter() - began)
            if name != BY_ROW:  # whose costs are those by column
                ranks[name] += [int(np.count_nonzero(costs <= costs[place])) for place in places]
    return {
        name: {
            "ms": round(1000 * float(np.median(times[name])), 2),
            "needed": {str(recall): sorted(found)[math.ceil(recall * len(found)) - 1] for recall in RECALLS if found},
        }
        for name, found in ranks.items()
    }


def shortlists(base: np.ndarray, query: np.ndarray, rounds: int) -> dict[str, float]:
    """Milliseconds to find the least costs, and to compare a shortlist in full."""
    chance = np.random.default_rng(0)
    costs = chance.binomial(192, 0.5, len(base)).astype(np.uint8)
    few = costs < 78
    some = np.ascontiguousarray(base[np.sort(chance.choice(len(base), 2000, replace=False))])
    ways: dict[str, Callable[[], object]] = {
        "argpartition, 2,000 least": lambda: np.argpartition(costs, 2000)[:2000],
        "smallest, 2,000 least": lambda: kernels.smallest(costs, 2000, 255),
        "small, 25,000 least": lambda: kernels.small(costs, 25_000, 255),
        "flatnonzero": lambda: np.flatnonzero(few),
        "flatnonzero, eight at a time": lambda: kernels._true(few),
        "2,000 in full, BLAS": lambda: some @ query,
        "2,000 in full, einsum": lambda: np.einsum("ij,j->i", some, query),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            began = time.perf_counter()
            way()
            if number:
                times[name].append(time.perf_counter() - began)
    return {name: round(1000 * float(np.median(taken)), 3) for name, taken in times.items()}


def cells(base: np.ndarray, queries: np.ndarray, true: np.ndarray, count: int = 1024) -> dict[str, Any]:
    """What k-means cells would save: the share of all vectors in the cells that must be looked at for a recall."""
    chance, began = np.random.default_rng(0), time.perf_counter()
    sample = base[chance.choice(len(base), min(40 * count, len(base)), replace=False)]
    centres = sample[:count].copy()
    for _ in range(5):
        sums = np.zeros_like(centres)
        np.add.at(sums, _nearest(sample, centres), sample)
        centres = unit_length(np.where(sums.any(axis=1, keepdims=True), sums, centres))
    cell = _nearest(base, centres)
    seconds, sizes = time.perf_counter() - began, np.bincount(cell, minlength=count)
    order = np.argsort(-(queries @ centres.T), axis=1)
    ranks = np.argsort(order, axis=1)
    needed = []
    for number in range(len(queries)):
        needed += ranks[number, cell[true[number]]].tolist()
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
