"""An overload ramp in simulated time: what shedding layers brings, and what other rules would have brought.

    python benchmarks/overload_simulation.py --json benchmarks/results/overload-simulation.json

The real scheduler of the server runs with a simulated clock, so the result does not depend on the machine. Queries of
14 tokens or so ask for all six layers of the built-in model and want their answer within 300 ms. Their rate rises from
half of what the simulated machine can answer at six layers to four times as much. A batch takes what the table of
README says for two cores, times ten, and up to a fifth more or less. Quality is the STS score of the layers that were
used, as a share of that of all six, from research/results/profile-built-in.json.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, median
from typing import Any

from demitasse.planning.profile_json import read_profile
from demitasse.serving.costs import BatchSize, Costs
from demitasse.serving.scheduler import Limits, Scheduler

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tests" / "helpers"))
from simulated_server import Arrival, simulate  # noqa: E402

TRUE = Costs((2.1e-3, 1.5e-4, 4e-5, 1.2e-4))
CAPACITY = 187  # queries per second at six layers
SECONDS, TIMEOUT = 20, 0.3
SIZE = BatchSize(256, seconds=0.02)


class OwnTimeOnly(Scheduler):
    """Looks at the time of the request that starts, not at those behind it."""

    def _set_level(self, now: float) -> None:
        pass


# name -> the fewest layers of a query, the scheduler, the size of a batch
RULES: dict[str, tuple[int, type[Scheduler], BatchSize]] = {
    "no shedding": (6, Scheduler, SIZE),
    "down to 2 layers": (2, Scheduler, SIZE),
    "down to 1 layer": (1, Scheduler, SIZE),
    "down to 2, its own time alone": (2, OwnTimeOnly, SIZE),
    "down to 1, its own time alone": (1, OwnTimeOnly, SIZE),
    "down to 2, batches not bounded in time": (2, Scheduler, BatchSize(256, seconds=10)),
    "down to 1, batches not bounded in time": (1, Scheduler, BatchSize(256, seconds=10)),
}


def ramp(floor: int, make: Callable[..., Scheduler], size: BatchSize, seed: int) -> list[Arrival]:
    """The queries of one ramp, and what became of them."""
    generator, arrivals, now = random.Random(seed), [], 0.0
    while now < SECONDS:
        now += generator.expovariate(CAPACITY * (0.5 + 3.5 * now / SECONDS))
        arrivals.append(Arrival(now, [max(3, int(generator.gauss(14, 3)))], 6, floor, TIMEOUT))
    guess = Costs(tuple(2 * part for part in TRUE.guess))  # the scheduler thinks at first that it is half as fast
    scheduler = make(Limits(2, size, queue_tokens=500_000, queue_seconds=30), 6, guess)
    simulate(scheduler, lambda work, at: TRUE.seconds(work) * generator.uniform(0.8, 1.2), arrivals)
    return arrivals


def summary(name: str, runs: list[list[Arrival]], quality: dict[int, float]) -> dict[str, Any]:
    """One row of the table, over all ramps."""
    arrivals = [arrival for run in runs for arrival in run]
    answered = [arrival for arrival in arrivals if arrival.in_time]
    refused = sum(arrival.retry_after is not None for arrival in arrivals)
    took = sorted(arrival.took or 0.0 for arrival in answered)
    return {
        "rule": name,
        "asked": len(arrivals),
        "in_time": len(answered),
        "refused": refused,
        "late": len(arrivals) - len(answered) - refused,
        "mean_layers": round(fmean(arrival.used_layers or 0 for arrival in answered), 2),
        "quality": round(fmean(quality[arrival.used_layers or 0] for arrival in answered) / quality[6], 4),
        "p50_ms": round(1000 * median(took)),
        "p99_ms": round(1000 * took[int(0.99 * len(took))]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ramps", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    profile = read_profile(ROOT / "research" / "results" / "profile-built-in.json")
    rows = [row for row in profile.select(vectors=["float32"]) if row.cut.dims == 384]
    quality = {row.cut.layers: row.quality for row in rows}
    found = [
        summary(name, [ramp(*rule, seed) for seed in range(options.ramps)], quality) for name, rule in RULES.items()
    ]
    written = json.dumps({"ramps": options.ramps, "rows": found}, indent=1)
    print(written)
    if options.json:
        options.json.write_text(written + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
