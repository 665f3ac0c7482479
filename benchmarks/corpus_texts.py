"""Corpora of any size for corpus.py, made from real sentences."""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from demitasse.host.bundled import corpus

GROUP = 100_000  # rows of a row group


def read_sentences(path: Path | None) -> list[str]:
    """One sentence a line; those that ship with demitasse where no file is named."""
    if path is None:
        return list(corpus())
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as lines:
        return [line for line in lines.read().splitlines() if line.strip()]


def texts(sentences: list[str], seed: int = 0) -> Iterator[str]:
    """Endless short texts: sentences, each with one of its words replaced by two others, so that most differ."""
    chance, split = random.Random(seed), [sentence.split() for sentence in sentences]
    words = sorted({word for sentence in split for word in sentence})
    while True:
        sentence = list(chance.choice(split))
        place = chance.randrange(len(sentence))
        sentence[place : place + 1] = chance.choices(words, k=2)
        yield " ".join(sentence)


def write_corpus(path: Path, rows: int, sentences: list[str]) -> None:
    """A Parquet file with `id` and `text`; one that is there is left as it is."""
    if path.exists():
        return
    schema, made = pa.schema([("id", pa.int64()), ("text", pa.string())]), texts(sentences)
    begun = path.with_suffix(".begun")
    with pq.ParquetWriter(begun, schema) as writer:
        for start in range(0, rows, GROUP):
            ids = range(start, min(rows, start + GROUP))
            writer.write_table(pa.table([pa.array(ids), pa.array([next(made) for _ in ids])], schema=schema))
    begun.rename(path)
