"""Make the built-in model: all-MiniLM-L6-v2 trained with `Elastic` on open data, then int8 blocks.

    python research/built_in.py --base all-MiniLM-L6-v2 --data TRAIN --out built-in --blocks src/demitasse/assets/model

BASE is a sentence-transformers folder or hub name, TRAIN holds the files below, whose licences allow to ship what is
trained on them (src/demitasse/assets/model/README.md). OUT becomes the full-precision model, which torch and
sentence-transformers open; about eight minutes on a large GPU, and it is used as it is if it is there. BLOCKS become
the int8 blocks of the wheel. Run `research/sts_grid.py` and `research/tables.py` afterwards: they write the
tables of the card.
"""

from __future__ import annotations

import argparse
import gzip
import tempfile
from dataclasses import replace
from pathlib import Path

from passages import write_passages

import demitasse as dt
from demitasse.encoding.exits import mean_cosine, similarity_agreement
from demitasse.host.bundled import corpus
from demitasse.torch_model.torch_encoder import TorchEncoder

# How often, in a hundred batches, one comes from each file. More than half of the paired ones are NLI, which STS
# gains most from; plain sentences and passages keep the model what it was on everything else.
WEIGHTS = {
    "nli-triples.jsonl.gz": 24,
    "nli-pairs.jsonl.gz": 10,
    "tatoeba-groups.jsonl.gz": 8,
    "wikisplit-pairs.jsonl.gz": 5,
    "wordnet-lemma-gloss.jsonl.gz": 5,
    "acl-title-abstract.jsonl.gz": 4,
    "debian-synopsis-description.jsonl.gz": 4,
    "sentences.txt.gz": 15,
    "passages.txt.gz": 25,  # made here
}
OBJECTIVE = dt.Elastic(tune=0.045, blend=0.5, keep=0.0, anchor=40.0, hold=5.0, distil_rate=7e-4)
OPTIONS = dt.TrainOptions(steps=2200, batch=512, embedding_rate=5e-4)
PASSAGES = {"count": 60_000, "least": 6, "words": (30, 130), "seed": 0}  # as research/passages.py has them
PASSAGES_OF = ("sentences.txt.gz", "wordnet-lemma-gloss.jsonl.gz")
SCALES = {"sentences.txt.gz": 600, "passages.txt.gz": 150}  # texts of each file that set the scales of int8


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
    parser.add_argument("--base", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--blocks", type=Path, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "passages.txt.gz"
        write_passages([options.data / name for name in PASSAGES_OF], made, **PASSAGES)
        files = [made if name == made.name else options.data / name for name in WEIGHTS]
        if not options.out.exists():
            data = dt.read_pairs(*files, weights=list(WEIGHTS.values()), skip_bad_rows=True)
            run = Path(folder) / "run"
            measured(dt.train(dt.load(options.base), data, OBJECTIVE, out=run, options=OPTIONS)).save(options.out)
        scales = [text for file in files if file.name in SCALES for text in _spread(file, SCALES[file.name])]
    trained = dt.load(options.out, device="cpu")
    print(trained)
    print(dt.export(trained, options.blocks, format="blocks-int8", sentences=scales))


def _spread(path: Path, count: int) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = lines.read().splitlines()
    return rows[:: len(rows) // count][:count]


if __name__ == "__main__":
    main()
