"""Passages of some sentences each, for distilling on longer texts than sentences.

    python research/passages.py sentences.txt.gz wordnet-lemma-gloss.jsonl.gz passages.txt.gz --count 60000

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
from collections.abc import Iterable, Iterator, Sequence
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


def write_passages(
    sources: Sequence[Path], out: Path, count: int, least: int, words: tuple[int, int], seed: int
) -> int:
    """Write at most `count` passages of what `sources` hold, mixed, to `out`; how many there were."""
    found = [sentence for path in sources for sentence in sentences(path)]
    if len(sources) > 1:
        random.Random(seed).shuffle(found)
    written = 0
    with gzip.open(out, "wt", encoding="utf-8") as file:
        for text in islice(passages(found, least, words, seed), count):
            file.write(f"{text}\n")
            written += 1
    return written


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("out", type=Path)
    parser.add_argument("--count", type=int, default=40_000)
    parser.add_argument("--least", type=int, default=12)
    parser.add_argument("--words", type=int, nargs=2, default=(50, 130))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    words = (options.words[0], options.words[1])
    count = write_passages(options.sources, options.out, options.count, options.least, words, options.seed)
    print(f"{options.out}: {count} passages")


if __name__ == "__main__":
    main()
