"""What was tried for the exits, on stsb-dev: lambda, whitening, the order of dims, and the refinement.

    python research/exit_experiments.py MODEL --sentences FILE.txt.gz --data STS_FOLDER \\
        --json research/results/exit-experiments.json

States are computed once; every row is then a closed form or a short descent on them. Scores are Spearman x100 on
stsb-dev: the mean of the shallow layers, the last layer, and the shallow layers against the last one.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
from sts_grid import read_task, spearman

import demitasse as dt
from demitasse.encoding.exits import LAMBDAS, Exit, Moments, choose_exit, mean_cosine
from demitasse.encoding.vectors import unit_length
from demitasse.training import refine_exits as refining

DIMS = (384, 128, 64, 32)
Map = Callable[[np.ndarray], np.ndarray]


class Bench:
    """The states of the sentences and of stsb-dev, and what a set of maps scores on the latter."""

    def __init__(self, encoder: dt.Encoder, sentences: list[str], data: Path) -> None:
        self.layers = encoder.full.layers
        texts, self.gold = read_task(data / "stsb-dev.jsonl.gz")
        self.dev = self._states(encoder, texts)
        every = self._states(encoder, sentences)
        held = np.arange(len(sentences)) % 20 == 19
        self.held = {depth: states[held] for depth, states in every.items()}
        self.fit = {depth: states[~held] for depth, states in every.items()}

    def _states(self, encoder: dt.Encoder, texts: list[str]) -> dict[int, np.ndarray]:
        states = {k: v.numpy() for k, v in encoder.states(texts, range(self.layers + 1)).items()}
        states[self.layers] = unit_length(states[self.layers])
        return states

    def closed(self, depth: int) -> Moments:
        moments = Moments(self.fit[depth].shape[1], self.fit[self.layers].shape[1])
        moments.add(self.fit[depth], self.fit[self.layers])
        return moments

    def score(self, maps: dict[int, Map]) -> dict[str, dict[str, float]]:
        """`maps` of depth to function, the last layer's among them."""
        vectors = {depth: maps[depth](self.dev[depth]) for depth in range(1, self.layers + 1)}
        found: dict[str, dict[str, float]] = {"shallow": {}, "last": {}, "against last": {}}
        for dims in DIMS:
            cut = {depth: np.split(unit_length(rows[:, :dims]), 2) for depth, rows in vectors.items()}
            last = cut[self.layers]
            own = [spearman((a * b).sum(1), self.gold) for a, b in cut.values()]
            found["shallow"][str(dims)] = float(np.mean(own[:-1]))
            found["last"][str(dims)] = own[-1]
            across = [spearman((cut[k][0] * last[1]).sum(1), self.gold) for k in range(1, self.layers)]
            found["against last"][str(dims)] = float(np.mean(across))
        return {kind: {dims: round(value, 2) for dims, value in row.items()} for kind, row in found.items()}


def turned(exits: dict[int, Exit], layers: int, matrix: np.ndarray) -> dict[int, Map]:
    """The exits and the last layer, each followed by `matrix`."""
    maps: dict[int, Map] = {depth: lambda x, e=exit_: e(x) @ matrix for depth, exit_ in exits.items()}
    return {**maps, layers: lambda x: x @ matrix}


def experiments(bench: Bench) -> Iterator[tuple[str, dict[int, Map]]]:
    layers, one = bench.layers, np.eye(bench.fit[bench.layers].shape[1], dtype=np.float32)
    moments = {depth: bench.closed(depth) for depth in range(layers)}
    for value in LAMBDAS:
        yield f"closed form, lambda {value:g}", turned({k: m.solve(value) for k, m in moments.items()}, layers, one)
    best = {k: choose_exit(m, bench.held[k], bench.held[layers])[0] for k, m in moments.items()}
    yield "closed form, lambda chosen", turned(best, layers, one)

    for power in (-0.2, 0.2, 0.5):
        yield f"exits whitened by {power:g}", {**whitened(bench, best, power), layers: lambda x: x}

    target = bench.fit[layers]
    values, basis = np.linalg.eigh(np.cov(target.T))
    basis, values = basis[:, ::-1].astype(np.float32), np.maximum(values[::-1], 1e-6)
    yield "order: PCA", turned(best, layers, basis)
    for power in (0.5, 1.0):
        yield f"order: PCA whitened by {power:g}", turned(best, layers, (basis * values ** (-power / 2)).astype("f4"))
    random = np.linalg.qr(np.random.default_rng(0).normal(size=one.shape))[0].astype(np.float32)
    yield "order: random rotation", turned(best, layers, random)
    order = refining.learn_order(target, 0, lambda steps: None)
    yield "order: learned rotation", turned(best, layers, order)

    ordered = {depth: exit_.rotated(order) for depth, exit_ in best.items()}
    for label, options in {
        "refined": {},  # temperature 0.03, anchor 5, across depths 2, batch 768
        "refined, temperature 0.05": {"TEMPERATURE": 0.05},
        "refined, temperature 0.02": {"TEMPERATURE": 0.02},
        "refined, anchor 0": {"ANCHOR": 0.0},
        "refined, anchor 1": {"ANCHOR": 1.0},
        "refined, anchor 20": {"ANCHOR": 20.0},
        "refined, across depths 0": {"ACROSS": 0.0},
        "refined, across depths 1": {"ACROSS": 1.0},
        "refined, batch 256": {"REFINE_BATCH": 256},
    }.items():
        before = {name: getattr(refining, name) for name in options}
        vars(refining).update(options)
        refined = refining.refine_exits(ordered, bench.fit, target @ order, 0, lambda steps: None)
        vars(refining).update(before)
        yield f"learned order, {label}", {**refined, layers: lambda x: x @ order}


def whitened(bench: Bench, exits: dict[int, Exit], power: float) -> dict[int, Map]:
    """Each exit's output with its spectrum flattened (power > 0) or sharpened (power < 0)."""
    maps: dict[int, Map] = {}
    for depth, exit_ in exits.items():
        values, basis = np.linalg.eigh(np.cov(exit_(bench.fit[depth]).T))
        scale = np.maximum(values / values.max(), 1e-6) ** -power
        matrix = (basis * scale @ basis.T).astype(np.float32)
        maps[depth] = lambda x, e=exit_, m=matrix: e(x) @ m
    return maps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--sentences", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=20000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with gzip.open(options.sentences, "rt") as lines:
        sentences = [line.rstrip("\n") for line in islice(lines, options.limit)]
    bench = Bench(dt.load(options.model), sentences, options.data)
    rows = {}
    begun = time.perf_counter()
    for label, maps in experiments(bench):
        seconds = time.perf_counter() - begun
        held = np.mean([mean_cosine(maps[k](bench.held[k]), maps[bench.layers](bench.held[bench.layers]))
                        for k in range(1, bench.layers)])  # fmt: skip
        rows[label] = {**bench.score(maps), "held-out cosine": round(float(held), 4)}
        print(f"{label:45} {rows[label]}  {seconds:.0f} s", flush=True)
        begun = time.perf_counter()
    if options.json:
        options.json.write_text(json.dumps({"model": Path(options.model).name, "stsb-dev": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
