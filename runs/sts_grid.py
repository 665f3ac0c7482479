"""Spearman x 100 of every layers x dims cut on the seven STS tasks, from one pass over the texts.

    python runs/sts_grid.py MODEL --data STS_FOLDER --json results/NAME.json

STS_FOLDER holds sts12 ... sts16, stsb-test, sick-test (and stsb-dev) as `.jsonl.gz`: a, b, score on each line. The
score of a task is one Spearman correlation over all its rows, the mean is over the seven tasks (SentEval protocol).
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path

import numpy as np

import demitasse as dt
from demitasse import dev_scores

TEST = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb-test", "sick-test")
DEV = ("stsb-dev",)
GROUPS = {"test": TEST, "dev": DEV}


def spearman(ours: np.ndarray, theirs: np.ndarray) -> float:
    return 100 * dev_scores.spearman(ours, theirs)


def read_task(path: Path) -> tuple[list[str], np.ndarray]:
    """All first texts, then all second ones, and the score of each pair."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [row[side] for side in "ab" for row in rows], np.array([row["score"] for row in rows], dtype=float)


def task_scores(encoder: dt.Encoder, path: Path, cuts: list[dt.Cut]) -> dict[str, dict[str, float]]:
    """For each cut: both sides at that cut, and one side at that cut against the other at full depth."""
    texts, gold = read_task(path)
    vectors = encoder.encode_cuts(texts, cuts)
    scores: dict[str, dict[str, float]] = {}
    for cut in cuts:
        left, right = np.split(vectors[cut], 2)
        deep_left, deep_right = np.split(vectors[dt.Cut(encoder.full.layers, cut.dims)], 2)
        across = [spearman((a * b).sum(1), gold) for a, b in ((left, deep_right), (deep_left, right))]
        scores[str(cut)] = {
            "same": spearman((left * right).sum(1), gold),
            "against_full": float(np.mean(across)),
        }
    return scores


def usual_cuts(encoder: dt.Encoder, dims: list[int] | None = None) -> list[dt.Cut]:
    """Every depth at `dims`: by default 32, 64, 128, … and all."""
    layers, full = encoder.full
    return dt.grid(range(layers + 1), dims or [*(d for d in (32, 64, 128, 256, 512) if d < full), full])


def means_of(tasks: dict[str, dict[str, dict[str, float]]], cuts: list[dt.Cut]) -> dict[str, dict[str, float]]:
    """The mean score of each cut over the tests and over the dev sets among `tasks`, of either kind."""
    tables = {}
    for kind in ("same", "against_full"):
        for group, members in GROUPS.items():
            names = [name for name in members if name in tasks]
            if names:
                tables[f"{group}/{kind}"] = {
                    str(cut): round(float(np.mean([tasks[n][str(cut)][kind] for n in names])), 2) for cut in cuts
                }
    return tables


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--dims", type=int, nargs="*", help="default: 32, 64, 128, … and all")
    parser.add_argument("--tasks", nargs="*", default=[*TEST, *DEV])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    encoder = dt.load(options.model)
    cuts, layers = usual_cuts(encoder, options.dims), encoder.full.layers
    dims = sorted({cut.dims for cut in cuts})
    tasks = {name: task_scores(encoder, options.data / f"{name}.jsonl.gz", cuts) for name in options.tasks}

    tables = means_of(tasks, cuts)
    for name, mean in tables.items():
        group, _, kind = name.partition("/")
        print(f"\n{group}, {kind}: mean Spearman x100 of {', '.join(n for n in GROUPS[group] if n in tasks)}")
        print("layers  " + "".join(f"{d:>8}" for d in dims))
        for layer in range(layers, -1, -1):
            print(f"{layer:>6}  " + "".join(f"{mean[f'{layer}x{d}']:>8.2f}" for d in dims))
        shallow = [np.mean([mean[f"{k}x{d}"] for k in range(1, layers)]) for d in dims]
        print(f"1 to {layers - 1}  " + "".join(f"{value:>8.2f}" for value in shallow))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        result = {
            "model": encoder.record.get("source"),
            "objective": encoder.record.get("objective"),
            "data": encoder.record.get("data"),
            "demitasse": dt.__version__,
            "means": tables,
            "tasks": {
                name: {c: {k: round(v, 3) for k, v in s.items()} for c, s in rows.items()}
                for name, rows in tasks.items()
            },
        }
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
