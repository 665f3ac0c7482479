"""Requests per second of the server's engine alone, without HTTP: how many batches at a time, and how large?

    python benchmarks/engine.py --json benchmarks/results/engine.json

Clients in the same process send one sentence after another to the built-in model, each at a random number of layers
from 1 to 6. The engines take turns. A ratio is over the engine with the options that are used by default; it is the
median over rounds, with the range of the middle half.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from pathlib import Path
from typing import Any

import numpy as np

from demitasse.cut import Cut
from demitasse.encoding.loading import load
from demitasse.host.bundled import corpus
from demitasse.host.machine import cores, machine, versions
from demitasse.serving.engine import Asked, Engine, EngineOptions

TEXTS = corpus()
DEFAULT_TOKENS = 256


async def client(engine: Engine, until: float, seed: int) -> list[float]:
    """Asks until a time; returns the seconds of each answer."""
    generator, took = random.Random(seed), []
    while (begun := time.perf_counter()) < until:
        await engine.embed(Asked([generator.choice(TEXTS)], Cut(generator.randint(1, 6), 384)))
        took.append(time.perf_counter() - begun)
    return took


async def turn(engine: Engine, clients: int, seconds: float, seed: int) -> tuple[float, float]:
    """Requests per second, and the 95th percentile of their times."""
    begun = time.perf_counter()
    parts = await asyncio.gather(
        *(client(engine, begun + seconds, clients * seed + number) for number in range(clients))
    )
    took = [seconds for part in parts for seconds in part]
    return len(took) / (time.perf_counter() - begun), float(np.percentile(took, 95))


async def measured(options: argparse.Namespace) -> list[dict[str, Any]]:
    """One row for each engine."""
    encoder, default = load(), (cores(), DEFAULT_TOKENS)
    sizes = sorted({default, *((workers, tokens) for workers in options.workers for tokens in options.tokens)})
    engines = {size: Engine(encoder, EngineOptions(threads=size[0], max_batch_tokens=size[1])) for size in sizes}
    for engine in engines.values():
        await engine.start()
        await turn(engine, options.clients, options.seconds, seed=0)
    turns: dict[tuple[int, int], list[tuple[float, float]]] = {size: [] for size in sizes}
    for number in range(1, options.rounds + 1):
        for size in sizes if number % 2 else sizes[::-1]:
            turns[size].append(await turn(engines[size], options.clients, options.seconds, number))
    rows = []
    for size in sizes:
        speeds = [speed for speed, _ in turns[size]]
        ratios = [speed / base for speed, (base, _) in zip(speeds, turns[default], strict=True)]
        low, middle, high = np.percentile(ratios, [25, 50, 75])
        rows.append(
            {
                "batches_at_a_time": size[0],
                "batch_tokens": size[1],
                "requests_a_second": round(float(np.median(speeds)), 1),
                "p95_ms": round(1000 * float(np.median([p95 for _, p95 in turns[size]])), 2),
                "ratio": round(float(middle), 3),
                "middle_half": [round(float(low), 3), round(float(high), 3)],
            }
        )
    for engine in engines.values():
        await engine.drain(seconds=1)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--tokens", type=int, nargs="+", default=[64, 128, 256, 512])
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=0.7, help="of each turn")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = asyncio.run(measured(options))
    print("| batches at a time | tokens | requests/s | p95 ms | ratio |\n|---|---|---|---|---|")
    for row in rows:
        low, high = row["middle_half"]
        print(
            f"| {row['batches_at_a_time']} | {row['batch_tokens']} | {row['requests_a_second']:,.0f} "
            f"| {row['p95_ms']:.1f} | {row['ratio']:.2f} ({low:.2f}-{high:.2f}) |"
        )
    result = {"machine": machine(), "versions": versions(), "clients": options.clients, "rounds": options.rounds}
    written = json.dumps({**result, "rows": rows}, indent=1)
    print(f"\n{written}")
    if options.json:
        options.json.write_text(written + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
