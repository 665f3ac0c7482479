"""How exact cuts are, measured: every architecture of tests/helpers/zoo.py, tiny and random, at every depth.

    python research/architectures.py --json research/results/architectures.json

Three largest differences for each: the state at depth k inside the whole model against the plain output of the model
truncated at k (left and right padding); a saved cut loaded again against the one in memory; the same folder opened by
plain sentence-transformers. Depths run from 0 to all; "from 1" where transformers itself cannot make the model empty.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import sentence_transformers
import torch
import transformers

import demitasse as dt
from demitasse.torch_model.backbone import find_backbone

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))
import zoo

TEXTS = zoo.sentences(50, seed=11)


def state_difference(name: str) -> float:
    model = zoo.build(name)
    backbone = find_backbone(model)
    worst = 0.0
    for side in ("left", "right"):
        batch = zoo.padded_batch(model, side)
        real = batch["attention_mask"].bool()
        with torch.no_grad():
            states = backbone.states(batch, range(zoo.DEPTH + 1), lambda hidden: hidden)
            for depth in range(0 if backbone.runs_empty else 1, zoo.DEPTH + 1):
                alone = backbone.truncated(depth).model(**batch).last_hidden_state
                worst = max(worst, float((states[depth] - alone)[real].abs().max()))
    return worst


def folder_differences(name: str, work: Path) -> tuple[float, float, bool]:
    encoder = dt.load(zoo.write_folder(work / "base", name))
    reloaded = theirs = 0.0
    empty = encoder.backbone.runs_empty
    for cut in dt.grid(range(0 if empty else 1, zoo.DEPTH + 1), [8, 32]):
        small = encoder.cut(*cut)
        small.save(work / str(cut))
        vectors = small.encode(TEXTS)
        again = dt.load(work / str(cut)).encode(TEXTS)
        plain = sentence_transformers.SentenceTransformer(str(work / str(cut)), device="cpu").encode(TEXTS)
        reloaded = max(reloaded, float(np.abs(again - vectors).max()))
        theirs = max(theirs, float(np.abs(plain - vectors).max()))
    return reloaded, theirs, empty


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    rows = {}
    for name in zoo.BUILD:
        with tempfile.TemporaryDirectory() as work:
            reloaded, theirs, empty = folder_differences(name, Path(work))
        rows[name] = {
            "state_against_truncated": state_difference(name),
            "saved_and_reloaded": reloaded,
            "sentence_transformers": theirs,
            "depths": f"{0 if empty else 1} to {zoo.DEPTH}",
        }
    print("| architecture | state = truncated | saved = reloaded | sentence-transformers | depths |")
    print("|---|---|---|---|---|")
    for name, row in rows.items():
        differences = " | ".join(f"{value:.0e}" for key, value in row.items() if key != "depths")
        print(f"| {name} | {differences} | {row['depths']} |")
    if options.json:
        versions = {module.__name__: module.__version__ for module in (torch, transformers, sentence_transformers)}
        options.json.write_text(json.dumps({"versions": versions, "largest_difference": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
