"""What `demitasse plan` promises, measured again by other code: every answer, exported and run in separate processes.

    python benchmarks/plan_check.py --json benchmarks/results/plan-check.json

The built-in model is measured, three budgets are planned and exported, and each exported model is then loaded in fresh
processes that take turns. They time single texts and batches with a plain loop, score the sample with a few lines of
numpy, and add up the sizes of the files. A time holds if it differs by no more than the noise of both
measurements; quality may differ by 0.05, since different batches round differently.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from importlib.resources import files
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import demitasse as dt

BUDGETS = {
    "p95 under 2 ms": ["--latency-ms", "2"],
    "p95 under 1 ms": ["--latency-ms", "1"],
    "quality at least 97%": ["--min-quality", "97%"],
    "64 bytes per vector": ["--vector-bytes", "64"],
}
SINGLES = 60
BATCH = 32


def sample() -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[str]]:
    folder = files("demitasse") / "assets"
    pairs, questions = (
        [json.loads(line) for line in (folder / "sample" / name).read_text(encoding="utf-8").splitlines() if line]
        for name in ("pairs.jsonl", "questions.jsonl")
    )
    lines = (folder / "corpus.txt").read_text(encoding="utf-8").splitlines()
    return pairs, questions, [line for line in lines if line and not line.startswith("#")]


def once(model: str, kind: str, seed: int) -> dict[str, float]:
    """One process: load, time, score."""
    pairs, questions, corpus = sample()
    alone = [*{text: None for row in pairs for text in (row["a"], row["b"])}, *(row["query"] for row in questions)]
    for _ in range(5):  # a process that has run for a while …
        dt.load(model).encode([*alone, *corpus], progress=False)
    encoder = dt.load(model)  # … and a model that has seen no word yet
    drawn = random.Random(seed).sample(alone, SINGLES)
    for text in corpus[:10]:
        encoder.encode([text])
    seconds = []
    for text in drawn:
        begun = time.perf_counter()
        encoder.encode([text])
        seconds.append(time.perf_counter() - begun)
    together = [*alone, *corpus]
    random.Random(seed + 1).shuffle(together)
    batches = [together[start : start + BATCH] for start in range(0, len(together) - BATCH + 1, BATCH)]
    begun = time.perf_counter()
    for batch in batches:
        encoder.encode(batch, progress=False)
    speed = BATCH * len(batches) / (time.perf_counter() - begun)
    quality, vector_bytes = scored(encoder, kind, pairs, questions, corpus)
    return {
        "p50_ms": 1000 * float(np.percentile(seconds, 50)),
        "p95_ms": 1000 * float(np.percentile(seconds, 95)),
        "texts_per_second": speed,
        "quality": quality,
        "vector_bytes": vector_bytes,
    }


def scored(encoder: Any, kind: str, pairs: list[Any], questions: list[Any], corpus: list[str]) -> tuple[float, int]:
    def kept(texts: list[str]) -> np.ndarray:
        stored = dt.store(encoder.encode(texts, progress=False), kind)
        return np.asarray(dt.restore(stored, kind, encoder.full.dims))

    cosines = (kept([row["a"] for row in pairs]) * kept([row["b"] for row in pairs])).sum(1)
    spearman = np.corrcoef(ranks(cosines), ranks(np.array([row["score"] for row in pairs])))[0, 1]
    found = np.argsort(-(kept([row["query"] for row in questions]) @ kept(corpus).T), axis=1, kind="stable")[:, :10]
    gains = []
    for row, places in zip(questions, found, strict=True):
        hits = np.array([corpus[place] in row["answered_by"] for place in places], float)
        ideal = 1 / np.log2(np.arange(2, 2 + min(10, len(row["answered_by"]))))
        gains.append((hits / np.log2(np.arange(2, 12))).sum() / ideal.sum())
    stored = dt.store(encoder.encode(corpus[:1]), kind)
    return 50 * (spearman + float(np.mean(gains))), stored.nbytes


def ranks(values: np.ndarray) -> np.ndarray:
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[place]


def run(*command: str) -> str:
    return subprocess.run([sys.executable, *command], check=True, capture_output=True, text=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--once", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        model, kind, seed = options.once
        print(json.dumps(once(model, kind, int(seed))))
        return
    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder) / "profile.json"
        run("-m", "demitasse", "measure", "--json", str(profile))
        planned = {}
        for number, (words, limits) in enumerate(BUDGETS.items()):
            out = Path(folder) / str(number)
            said = run("-m", "demitasse", "plan", str(profile), *limits, "--export", str(out), "--json")
            planned[words] = (json.loads(said)["best"], out)
        turns: dict[str, list[dict[str, float]]] = {words: [] for words in planned}
        for turn in range(options.turns):
            for words, (row, out) in planned.items():
                turns[words].append(json.loads(run(__file__, "--once", str(out), row["vectors"], str(turn))))
        rows = [compared(words, *planned[words], turns[words]) for words in planned]
        measured = json.loads(profile.read_text())
    print(table(rows))
    if options.json:
        kept = {key: measured[key] for key in ("model", "fingerprint", "measure", "made")}
        options.json.write_text(json.dumps({**kept, "turns": options.turns, "rows": rows}, indent=1) + "\n")


def compared(words: str, row: dict[str, Any], out: Path, turns: list[dict[str, float]]) -> dict[str, Any]:
    """A plan's row beside what the turns say, and whether it holds."""
    middle = {key: median(turn[key] for turn in turns) for key in turns[0]}
    spread = {
        key: float(np.subtract(*np.percentile([turn[key] for turn in turns], [75, 25])) / 2 / middle[key])
        for key in ("p95_ms", "texts_per_second")
    }
    noise = row["noise"] + max(spread.values())
    timed = {key: middle[key] / row[key] - 1 for key in ("p95_ms", "texts_per_second")}
    layers = row["cut"].partition("x")[0]
    other_exits = [path for path in out.glob("exit_*.onnx") if path.stem != f"exit_{layers}"]  # for cuts of the cut
    loaded = [path for path in out.rglob("*.onnx") if path not in other_exits]
    again = {**middle, "model_mb": sum(path.stat().st_size for path in loaded) / 1e6}
    holds = {
        "quality": abs(again["quality"] - row["quality"]) < 0.05,
        "vector_bytes": again["vector_bytes"] == row["vector_bytes"],
        "model_mb": abs(again["model_mb"] - row["model_mb"]) < 0.05,
        **{key: abs(value) <= noise for key, value in timed.items()},
    }
    return {"budget": words, "planned": row, "again": again, "noise": noise, "holds": holds}


def table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| budget | answer | | quality | p95 ms | texts/s | bytes | model MB | noise |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        plan, again = row["planned"], row["again"]
        answer = f"{plan['cut']} {plan['precision']}, {plan['vectors']} vectors"
        failed = ", ".join(key for key, held in row["holds"].items() if not held)
        for name, values in (("planned", plan), ("again" + (f" (not: {failed})" if failed else ""), again)):
            numbers = (
                f"{values['quality']:.2f} | {values['p95_ms']:.2f} | {values['texts_per_second']:,.0f} | "
                f"{values['vector_bytes']:.0f} | {values['model_mb']:.1f}"
            )
            first = f"| {row['budget']} | {answer}" if name == "planned" else "| |"
            lines.append(f"{first} | {name} | {numbers} | {row['noise']:.0%} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
