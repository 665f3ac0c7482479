"""Make the built-in model: all-MiniLM-L6-v2 aligned at every depth with three teachers, then int8 blocks.

    python research/built_in.py --aligned ALIGNED --data DATA --out built-in --blocks src/demitasse/assets/model

ALIGNED is the model that `research/aligned/convert_checkpoint.py` wrote; `research/aligned/README.md` has how it was
trained. DATA has train/ and search/ with the files below, whose licences allow to ship what is trained on them
(src/demitasse/assets/model/README.md). OUT becomes the full-precision model, which torch and sentence-transformers
open, BLOCKS the int8 blocks of the wheel. Run `research/sts_grid.py`, `research/searches.py` and `research/tables.py`
afterwards: they write the tables of the card.
"""

from __future__ import annotations

import argparse
import gzip
from dataclasses import replace
from pathlib import Path

import demitasse as dt
from demitasse.encoding.exits import mean_cosine, similarity_agreement
from demitasse.host.bundled import corpus
from demitasse.torch_model.torch_encoder import TorchEncoder

# Texts of each file that set the scales of int8: sentences, and passages of the kinds that searches have.
SCALES = {
    "train/sentences.txt.gz": 600,
    "search/passages-wikipedia.txt.gz": 75,
    "search/passages-elife-digest.txt.gz": 40,
    "search/passages-elife-intro-discussion.txt.gz": 35,
}


def measured(encoder: TorchEncoder) -> TorchEncoder:
    """The same, its record saying how far each depth agrees with all layers on texts that it was not trained on."""
    layers, dims = encoder.full
    vectors = encoder.encode_cuts(corpus(), dt.grid(range(layers + 1), [dims]), progress=False)
    full = vectors[encoder.full]
    cuts = [
        {
            "cut": str(cut),
            "held_out": {"cosine": mean_cosine(rows, full), "similarity": similarity_agreement(rows, full)},
        }
        for cut, rows in vectors.items()
        if cut != encoder.full
    ]
    return replace(encoder, record={**encoder.record, "cuts": cuts})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--aligned", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--blocks", type=Path, required=True)
    options = parser.parse_args()
    measured(dt.load(options.aligned, device="cpu")).save(options.out, force=True)
    model = dt.load(options.out, device="cpu")
    scales = [text for name, count in SCALES.items() for text in _spread(options.data / name, count)]
    print(dt.export(model, options.blocks, format="blocks-int8", sentences=scales, force=True))


def _spread(path: Path, count: int) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = lines.read().splitlines()
    return rows[:: len(rows) // count][:count]


if __name__ == "__main__":
    main()
