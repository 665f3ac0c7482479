"""Passages of some sentences each, for distilling on longer texts than sentences.

    python runs/passages.py sentences.txt.gz wordnet-lemma-gloss.jsonl.gz passages.txt.gz --count 60000

Sentences of a shuffled file do not follow from one another, and need not: what a passage teaches is how the full model
pools many words of many topics. Pairs (.jsonl) become one sentence each, "anchor: positive": glosses bring words that
sentences seldom have. Short ones (below `--least` words) are left out, and a passage ends once it has as many words as
were drawn for it.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path


def sentences(path: Path) -> Iterator[str]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as lines:
        if ".jsonl" not in path.suffixes:
            yield from lines
            return
        for line in lines:
            row = json.loads(line)
            yield f"{row['anchor']}: {row['positive']}."


def passages(sentences: Iterable[str], least: int, words: tuple[int, int], seed: int) -> Iterator[str]:
    draw = random.Random(seed)
    parts: list[str] = []
    wanted = draw.randint(*words)
    for sentence in sentences:
        if len(sentence.split()) < least:
            continue
        parts.append(sentence.strip())
        if sum(len(part.split()) for part in parts) >= wanted:
            yield " ".join(parts)
            parts, wanted = [], draw.randint(*words)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("out", type=Path)
    parser.add_argument("--count", type=int, default=40_000)
    parser.add_argument("--least", type=int, default=12)
    parser.add_argument("--words", type=int, nargs=2, default=(50, 130))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    found = [sentence for path in options.sources for sentence in sentences(path)]
    if len(options.sources) > 1:
        random.Random(options.seed).shuffle(found)
    with gzip.open(options.out, "wt", encoding="utf-8") as out:
        made = passages(found, options.least, tuple(options.words), options.seed)
        count = 0
        for text in islice(made, options.count):
            out.write(f"{text}\n")
            count += 1
    print(f"{options.out}: {count} passages")


if __name__ == "__main__":
    main()
