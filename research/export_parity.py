"""The largest difference between exported fp32 blocks and torch, over all depths, texts of many lengths.

    python research/export_parity.py [MODEL ...] --json research/results/export-parity.json

Tiny random models of six architectures (tests/helpers/zoo.py), then the models given: folders or hub names. Also what
the export of each in int8 loses: the least mean cosine over depths.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np

import demitasse as dt

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))
import zoo

TINY = ("BERT", "MPNet", "DistilBERT", "ModernBERT", "NomicBert", "Qwen3")


def parity(encoder: dt.Encoder, texts: list[str], sentences: list[str] | None) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as place:
        dt.export(encoder, f"{place}/fp32", format="blocks", sentences=sentences)
        blocks = dt.load(f"{place}/fp32")
        cuts = dt.grid(range(encoder.full.layers + 1), [encoder.full.dims])
        ours, theirs = blocks.encode_cuts(texts, cuts), encoder.encode_cuts(texts, cuts)
        int8 = dt.export(encoder, f"{place}/int8", format="blocks-int8", sentences=sentences)
    by_depth = [float(np.abs(ours[cut] - theirs[cut]).max()) for cut in cuts]
    return {
        "depths": f"0 to {encoder.full.layers}",
        "largest_difference": max(by_depth),
        "by_depth": by_depth,
        "int8_least_mean_cosine": round(min(int8.mean_cosine.values()), 5),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = {}
    for name in TINY:
        with tempfile.TemporaryDirectory() as place:
            folder = zoo.write_folder(Path(place) / "tiny", name, modes="last" if name == "Qwen3" else "mean")
            encoder = dt.load(folder, device="cpu")
            rows[f"{name}, tiny"] = parity(encoder, [*zoo.sentences(60, seed=9), ""], zoo.sentences(300))
        print(name, rows[f"{name}, tiny"], flush=True)
    for name in options.models:
        from demitasse.host.bundled import corpus

        lines = corpus()
        texts = [*lines[::4], "", *(" ".join(lines[start : start + 12]) for start in range(0, 120, 12))]
        rows[Path(name).name] = parity(dt.load(name, device="cpu"), texts, None)
        print(name, rows[Path(name).name], flush=True)
    if options.json:
        options.json.write_text(json.dumps({"demitasse": dt.__version__, "models": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
