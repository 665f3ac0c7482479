"""Train one model with several objectives on the same data, steps and batch, and score every cut.

    python research/compare_objectives.py MODEL --train flickr.jsonl.gz nli.jsonl.gz --data DATA \\
        --run matryoshka --run espresso --run "elastic optimizer=muon" --rate 5e-5 \\
        --json research/results/objectives-minilm.json

Each `--run` is an objective as the command line writes it, and options of the run after a space:
`--run "espresso:compress=published rate=2e-5 loss=angle"`; `none` trains nothing, `fit` fits exits on the texts, and
`layers=3` takes the model's first three layers alone. DATA holds sts/ and retrieval/. Choices are made on the dev sets
(stsb-dev, sick-trial); the tests are only reported. Runs that were made beside one another are put into one file with
`python research/compare_objectives.py --merge one.json two.json --json both.json`.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sts_grid import same_and_across

import demitasse as dt
from demitasse.data.pairs import Pairs, read_pairs
from demitasse.data.sampler import Sampler
from demitasse.evaluation.task_files import read_tasks
from demitasse.objectives.names import LOSSES, OBJECTIVES, choice
from demitasse.training.options import TrainOptions
from demitasse.training.train import train

TASKS = ("sts", "stsb-dev", "sick-trial")
FITTED = 20_000  # texts that exits are fitted on
OTHERS = ("recall@10", "all@10", "answer@5", "answer@10")  # of a search, besides its nDCG@10; where the task has them


def parse(text: str) -> tuple[str, dict[str, Any]]:
    """The name of the objective and the options of a run."""
    name, *rest = text.split()
    options: dict[str, Any] = dict(part.split("=", 1) for part in rest)
    for key, value in options.items():
        if key == "loss":
            options[key] = choice(value, LOSSES, "loss")
        elif key != "optimizer":
            options[key] = ast.literal_eval(value)
    return name, options


def trained(base: Any, data: Pairs, text: str, common: dict[str, Any], out: Path) -> Any:
    name, rest = parse(text)
    base = base.cut(layers=rest.pop("layers", None))
    if name == "none":
        return base
    if name == "fit":
        return dt.fit_exits(base, list(islice(drawn(data, common), FITTED)), seed=common["seed"])
    options = TrainOptions(**{**common, **rest})
    return train(base, data, choice(name, OBJECTIVES, "objective"), out=out, options=options)


def drawn(data: Pairs, common: dict[str, Any]) -> Iterator[str]:
    """Texts in the order that training would see them."""
    sampler = Sampler(data, common["batch"], common["seed"])
    while True:
        yield from chain.from_iterable(sampler.next().columns)


def scores_of(encoder: Any, folder: Path, search: list[str]) -> dict[str, dict[str, float]]:
    """By task and kind (both sides at the cut, or the second side at full depth): cut to score.

    Further metrics of a search have tables of their own, such as "hotpotqa-500 recall@10/same".
    """
    found = {}
    same, across = same_and_across(encoder, read_tasks([*TASKS, *search], folder))
    for kind, evaluation, documents in (("same", same, None), ("against_full", across, encoder.full.layers)):
        for group in evaluation.groups:
            scores = {str(cut): evaluation.find(group, cut, documents) for cut in evaluation.cuts}
            found[f"{group}/{kind}"] = {cut: round(score.value, 3) for cut, score in scores.items()}
            for metric in OTHERS:
                if all(metric in score.others for score in scores.values()):
                    table = {cut: round(score.others[metric], 3) for cut, score in scores.items()}
                    found[f"{group} {metric}/{kind}"] = table
    return found


def summary(encoder: Any, scores: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Of each task: all layers, none, and the mean of those between, if there are any."""
    layers, full = encoder.full
    rows = {}
    for group in dict.fromkeys(name.partition("/")[0] for name in scores):
        same = scores[f"{group}/same"]
        rows[group] = {"last": same[f"{layers}x{full}"], "zero": same[f"0x{full}"]}
        for dims in (full, 128, 32) if layers > 1 else ():
            rows[group][f"shallow {dims}"] = round(float(np.mean([same[f"{k}x{dims}"] for k in range(1, layers)])), 2)
    return rows


def merged(paths: list[Path]) -> dict[str, Any]:
    """The runs of all files, which must have been made alike."""
    first, *others = (json.loads(path.read_text()) for path in paths)
    for path, other in zip(paths[1:], others, strict=True):
        unlike = [key for key in first if key != "runs" and first[key] != other[key]]
        if unlike:
            sys.exit(f"{path} has another {', '.join(unlike)} than {paths[0]}; merge files that were made alike")
        first["runs"] += other["runs"]
    return first


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?")
    parser.add_argument("--merge", nargs="+", type=Path, help="files of runs of the same data, steps, batch and seed")
    parser.add_argument("--train", nargs="+")
    parser.add_argument("--weights", type=float, nargs="+", help="how often batches come from each file; default: rows")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--search", nargs="*", default=["hotpotqa-500", "scifact"])
    parser.add_argument("--run", action="append")
    parser.add_argument("--steps", type=int, default=327)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--rate", type=float, default=5e-5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keep", type=Path, help="folder to keep the trained models in")
    options = parser.parse_args()
    if options.merge:
        options.json.write_text(json.dumps(merged(options.merge), indent=1) + "\n")
        return
    data, base = read_pairs(*options.train, weights=options.weights, skip_bad_rows=True), dt.load(options.model)
    common = {"steps": options.steps, "batch": options.batch, "rate": options.rate, "seed": options.seed}
    results = []
    for text in options.run:
        out, begun = Path(tempfile.mkdtemp()) / "run", time.perf_counter()
        encoder = trained(base, data, text, common, out)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()  # what training held; runs beside this one can use it
        result = {"run": text, "objective": encoder.record.get("objective"), "seconds": time.perf_counter() - begun}
        result["scores"] = scores_of(encoder, options.data, options.search)
        result["summary"] = summary(encoder, result["scores"])
        results.append(result)
        print(f"{text}  {result['seconds']:.0f} s  {result['summary']}", flush=True)
        if options.keep:
            encoder.save(options.keep / re.sub("[^a-z0-9.=-]", "_", text))
        shutil.rmtree(out.parent)
        if options.json:
            options.json.parent.mkdir(parents=True, exist_ok=True)
            device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
            written = {"demitasse": dt.__version__, "model": base.name, "device": device}
            written |= {"common": common, "data": data.describe()}
            options.json.write_text(json.dumps({**written, "runs": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
