"""Every depth of a model folder, or of the built-in model, on every evaluation set.

    python research/aligned/score_model.py built-in --data DATA --json research/results/evaluation-sets.json

DATA is as for pack_eval.py, whose sets these are. The table has the full size and 3x128 beside all-MiniLM-L6-v2 as
released, whose scores are those of `raw` in research/results/aligned-experiments.json.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import torch
from pack_eval import gathered

import demitasse as dt

sys.path.insert(0, str(Path(__file__).parent / "device"))

from score import scores_of, summary

RAW = Path(__file__).parents[1] / "results" / "aligned-experiments.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args()
    sets = gathered(options.data)
    encoder = dt.load(None if options.model == "built-in" else options.model)
    layers, dims = encoder.full
    cuts = dt.grid(range(layers + 1), [dims])
    found = encoder.encode_cuts(sets.texts, cuts)
    vectors = torch.from_numpy(np.stack([found[cut] for cut in cuts]))
    scores = scores_of(vectors, sets.arrays, sets.sets)
    for one in sets.sets:
        scores[one["name"]] = {cut: round(value, 6) for cut, value in scores[one["name"]].items()}
    result = {"model": options.model, "fingerprint": encoder.fingerprint, "demitasse": dt.__version__}
    result |= {"sets": sets.sets, "scores": scores, "summary": summary(scores, sets.sets)}
    options.json.write_text(json.dumps(result, indent=1) + "\n")
    raw = next(run for run in json.loads(RAW.read_text())["runs"] if run["run"] == "raw")
    known = {**raw["dev"], **raw["test"]}
    for one in sets.sets:
        for cut in (f"{layers}x{dims}", "3x128"):
            before = known.get(one["name"], {}).get(cut)
            shown = f"{scores[one['name']][cut]:.4f}" + ("" if before is None else f" ({before:.4f})")
            print(f"{one['name']:<16} {cut:<6} {shown}", flush=True)
    for label in ("dev", "sts"):
        print(label, {name: round(value, 2) for name, value in result["summary"][label].items()})


if __name__ == "__main__":
    main()
