"""Train one model with several objectives on the same data, steps and batch, and score every cut on the STS tests.

    python runs/compare_objectives.py MODEL --data flickr.jsonl.gz nli.jsonl.gz --sts STS_FOLDER \\
        --run matryoshka --run espresso --run elastic --rate 5e-5 --json results/objectives-minilm.json

Each `--run` is an objective as the command line writes it, and options of the run after a space:
`--run "espresso:compress=published rate=2e-5 loss=angle"`. The score that choices are made on is stsb-dev; the seven
tests are only reported.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sts_grid import DEV, TEST, means_of, task_scores, usual_cuts

import demitasse as dt
from demitasse.choices import LOSSES, OBJECTIVES, choice
from demitasse.pairs import Pairs, read_pairs
from demitasse.train_options import TrainOptions
from demitasse.training import train


def parse(text: str) -> tuple[Any, dict[str, Any]]:
    """The objective and the options of a run."""
    name, *rest = text.split()
    options = dict(part.split("=", 1) for part in rest)
    loss = {"loss": choice(options.pop("loss"), LOSSES, "loss")} if "loss" in options else {}
    return choice(name, OBJECTIVES, "objective"), {**{k: ast.literal_eval(v) for k, v in options.items()}, **loss}


def grid_of(encoder: Any, sts: Path) -> dict[str, dict[str, float]]:
    cuts = usual_cuts(encoder)
    return means_of({name: task_scores(encoder, sts / f"{name}.jsonl.gz", cuts) for name in (*TEST, *DEV)}, cuts)


def summary(encoder: Any, means: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    layers, full = encoder.full
    rows = {}
    for group in ("dev", "test"):
        same = means[f"{group}/same"]
        rows[group] = {"last": same[f"{layers}x{full}"], "zero": same[f"0x{full}"]}
        for dims in (full, 128, 32):
            rows[group][f"shallow {dims}"] = round(float(np.mean([same[f"{k}x{dims}"] for k in range(1, layers)])), 2)
    return rows


def one(base: Any, data: Pairs, text: str, common: dict[str, Any], out: Path) -> tuple[Any, dict[str, Any]]:
    objective, rest = parse(text)
    begun = time.perf_counter()
    encoder = train(base, data, objective, out=out, options=TrainOptions(**{**common, **rest}))
    return encoder, {"run": text, "objective": encoder.record["objective"], "seconds": time.perf_counter() - begun}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--data", nargs="+", required=True)
    parser.add_argument("--sts", type=Path, required=True)
    parser.add_argument("--run", action="append", required=True)
    parser.add_argument("--steps", type=int, default=327)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--rate", type=float, default=5e-5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keep", type=Path, help="folder to keep the trained models in")
    options = parser.parse_args()
    data, base = read_pairs(*options.data, skip_bad_rows=True), dt.load(options.model)
    common = {"steps": options.steps, "batch": options.batch, "rate": options.rate, "seed": options.seed}
    results = []
    for text in options.run:
        out = Path(tempfile.mkdtemp()) / "run"
        encoder, result = one(base, data, text, common, out)
        result["means"] = grid_of(encoder, options.sts)
        result["summary"] = summary(encoder, result["means"])
        result["log"] = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
        results.append(result)
        print(f"{text}  {result['seconds']:.0f} s  {result['summary']}", flush=True)
        if options.keep:
            shutil.copytree(out / "model", options.keep / re.sub("[^a-z0-9.=-]", "_", text))
        shutil.rmtree(out.parent)
        if options.json:
            options.json.parent.mkdir(parents=True, exist_ok=True)
            device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
            written = {"demitasse": dt.__version__, "device": device, "common": common, "data": data.describe()}
            options.json.write_text(json.dumps({**written, "runs": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
