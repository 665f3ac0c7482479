"""Make the built-in model: exits for all-MiniLM-L6-v2, then int8 blocks.

    python runs/built_in.py --base all-MiniLM-L6-v2 --sentences sentences.txt.gz --passages abstracts.jsonl.gz \\
        --out built-in --blocks src/demitasse/model

BASE is a sentence-transformers folder or hub name. SENTENCES has a sentence a line, PASSAGES a JSON object a line whose
`positive` is a paragraph. OUT becomes the full-precision model, which torch and sentence-transformers open (it is used
as it is if it is there); BLOCKS the int8 blocks that ship in the wheel. Run `runs/tables.py` afterwards: it writes the
table of the model card.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path

import demitasse as dt

SENTENCES, PASSAGES = 36_000, 4_000  # spread evenly over the files
SCALES = 600  # texts that set the scales of int8


def spread(rows: list[str], count: int) -> list[str]:
    return rows[:: max(1, len(rows) // count)][:count]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", required=True)
    parser.add_argument("--sentences", type=Path, required=True)
    parser.add_argument("--passages", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--blocks", type=Path, required=True)
    options = parser.parse_args()

    with gzip.open(options.sentences, "rt", encoding="utf-8") as lines:
        sentences = spread(lines.read().splitlines(), SENTENCES)
    with gzip.open(options.passages, "rt", encoding="utf-8") as lines:
        passages = spread([json.loads(line)["positive"] for line in lines], PASSAGES)
    # Mixed evenly, so that every twentieth text, which is held out, is of both kinds.
    every = SENTENCES // PASSAGES
    texts = [text for index, passage in enumerate(passages) for text in (*sentences[index * every :][:every], passage)]
    if not options.out.exists():
        dt.fit_exits(dt.load(options.base, device="cpu"), texts).save(options.out)
    fitted = dt.load(options.out, device="cpu")
    print(fitted)
    scales = [*spread(sentences, SCALES), *spread(passages, SCALES // 4)]
    print(dt.export(fitted, options.blocks, format="blocks-int8", sentences=scales))


if __name__ == "__main__":
    main()
