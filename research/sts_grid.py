"""Spearman x 100 of every layers x dims cut on the seven STS tasks, from one pass over the texts.

    python research/sts_grid.py MODEL --data STS_FOLDER --json research/results/NAME.json

STS_FOLDER holds sts12 ... sts16, stsb-test, sick-test (and stsb-dev) as `.jsonl.gz`: a, b, score on each line. The
score of a task is one Spearman correlation over all its rows, the mean is over the seven tasks (SentEval protocol).
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np

import demitasse as dt
from demitasse.evaluation.metrics import spearman as correlation
from demitasse.evaluation.task_files import STS, read_tasks

TEST = STS
GROUPS = {"test": STS, "dev": ("stsb-dev",)}


def spearman(ours: np.ndarray, theirs: np.ndarray) -> float:
    return 100 * correlation(ours, theirs)


def read_task(path: Path) -> tuple[list[str], np.ndarray]:
    """All first texts, then all second ones, and the score of each pair."""
    (task,) = read_tasks([path])
    return [*task.left, *task.right], task.gold


def scores_of(encoder: dt.Encoder, tasks: list[str], data: Path, dims: list[int] | None) -> dict[str, dict]:
    """Of each task, for each cut: both sides at that cut ("same"), and one side against the other at full depth."""
    layers = range(encoder.full.layers + 1)
    cuts = None if dims is None else dt.grid(layers, dims)
    found = [read_tasks([data / f"{name}.jsonl.gz"])[0] for name in tasks]
    same, across = same_and_across(encoder, found, cuts)
    return {
        name: {
            str(cut): {
                "same": same.score(name, cut),
                "against_full": across.score(name, cut, encoder.full.layers),
            }
            for cut in same.cuts
        }
        for name in tasks
    }


def same_and_across(encoder: dt.Encoder, tasks: list, cuts: list[dt.Cut] | None = None) -> list[dt.Evaluation]:
    """Both sides at each cut, then one side at each cut and the other at full depth, each text encoded once."""
    with tempfile.TemporaryDirectory() as cache:
        return [
            dt.evaluate(encoder, tasks, cuts=cuts, document_layers=documents, cache=cache, resamples=0)
            for documents in (None, [encoder.full.layers])
        ]


def means_of(tasks: dict[str, dict]) -> dict[str, dict[str, float]]:
    """The mean score of each cut over the tests and over the dev sets among `tasks`, of either kind."""
    tables = {}
    for kind in ("same", "against_full"):
        for group, members in GROUPS.items():
            held = [tasks[name] for name in members if name in tasks]
            if held:
                tables[f"{group}/{kind}"] = {
                    cut: round(float(np.mean([scores[cut][kind] for scores in held])), 2) for cut in held[0]
                }
    return tables


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--dims", type=int, nargs="*", help="default: 32, 64, 128, … and all")
    parser.add_argument("--tasks", nargs="*", default=[name for group in GROUPS.values() for name in group])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    encoder = dt.load(options.model)
    tasks = scores_of(encoder, options.tasks, options.data, options.dims)
    tables = means_of(tasks)
    for name, mean in tables.items():
        cuts = [dt.Cut.parse(cut) for cut in mean]
        dims = sorted({cut.dims for cut in cuts})
        group, _, kind = name.partition("/")
        print(f"\n{group}, {kind}: mean Spearman x100 of {', '.join(n for n in GROUPS[group] if n in tasks)}")
        print("layers  " + "".join(f"{d:>8}" for d in dims))
        for layers in sorted({cut.layers for cut in cuts}, reverse=True):
            print(f"{layers:>6}  " + "".join(f"{mean[f'{layers}x{d}']:>8.2f}" for d in dims))
        last = encoder.full.layers
        shallow = [np.mean([mean[f"{layers}x{d}"] for layers in range(1, last)]) for d in dims]
        print(f"1 to {last - 1}  " + "".join(f"{value:>8.2f}" for value in shallow))
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
