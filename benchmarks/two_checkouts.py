"""Two checkouts of demitasse against each other, in turns: did a change make anything slower?

    python benchmarks/two_checkouts.py ../before . --texts sentences.txt --json benchmarks/results/two-checkouts.json

Each checkout runs in a process of its own and encodes the same texts with the built-in model, at several numbers of
layers, one turn after the other; every turn loads the model again, so that no word has been seen before. Import time
and the time to the first vector are those of fresh processes. Ratios are new / old, the median over turns with the
range of the middle half: a ratio whose range holds 1.00 is not a difference.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

LAYERS = (0, 1, 3, 6)
SINGLE = 100  # texts encoded one at a time

WORKER = """
import json, sys, time
import demitasse as dt
texts = json.load(open(sys.argv[1]))
for line in sys.stdin:
    layers, single = json.loads(line)
    encoder = dt.load().cut(layers=layers)
    encoder.encode(texts[:100], progress=False)  # loads what is loaded on first use
    begun = time.perf_counter()
    if single:
        for text in texts[:single]:
            encoder.encode([text], progress=False)
    else:
        encoder.encode(texts, progress=False)
    print(json.dumps(time.perf_counter() - begun), flush=True)
"""
FRESH = {
    "import demitasse": "import demitasse",
    "first vector": "import demitasse; demitasse.load().encode(['a small cup'])",
}
TIMED = "import time; begun = time.perf_counter(); {code}; print(time.perf_counter() - begun)"


def environment(checkout: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(checkout.resolve() / "src"), "HF_HUB_OFFLINE": "1"}


class Worker:
    """A process that encodes with one checkout."""

    def __init__(self, checkout: Path, texts: Path) -> None:
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen([sys.executable, "-c", WORKER, str(texts)], env=environment(checkout), **pipes)

    def seconds(self, layers: int, single: int) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([layers, single]) + "\n")
        self._process.stdin.flush()
        return float(json.loads(self._process.stdout.readline()))


def fresh(checkout: Path, code: str) -> float:
    line = [sys.executable, "-c", TIMED.format(code=code)]
    run = subprocess.run(line, env=environment(checkout), capture_output=True, text=True, check=True)
    return float(run.stdout)


def ratios(old: list[float], new: list[float]) -> dict[str, float]:
    each = np.array(new) / np.array(old)
    low, middle, high = np.percentile(each, [25, 50, 75])
    return {"ratio": round(float(middle), 3), "low": round(float(low), 3), "high": round(float(high), 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--texts", type=Path, help="one text per line; default: the sentences that ship, repeated")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    shipped = options.new / "src" / "demitasse" / "assets" / "corpus.txt"
    texts = (options.texts or shipped).read_text(encoding="utf-8").splitlines()[:2000]
    results: dict[str, dict[str, float]] = {}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(texts, file)
        file.flush()
        workers = [Worker(checkout, Path(file.name)) for checkout in (options.old, options.new)]
        for layers in LAYERS:
            for single in (0, SINGLE):
                times: tuple[list[float], list[float]] = ([], [])
                for turn in range(options.turns):
                    for number in (0, 1) if turn % 2 else (1, 0):
                        times[number].append(workers[number].seconds(layers, single))
                what = f"{layers} layers, {'one text at a time' if single else f'{len(texts):,} texts'}"
                results[what] = ratios(*times)
                print(f"{what:45} {results[what]}", flush=True)
    for what, code in FRESH.items():
        runs = [(fresh(options.old, code), fresh(options.new, code)) for _ in range(options.turns)]
        results[what] = ratios([old for old, _ in runs], [new for _, new in runs])
        print(f"{what:45} {results[what]}", flush=True)
    if options.json:
        plain = {"made_by": "benchmarks/two_checkouts.py", "turns": options.turns, "time new / old": results}
        options.json.write_text(json.dumps(plain, indent=1) + "\n")


if __name__ == "__main__":
    main()
