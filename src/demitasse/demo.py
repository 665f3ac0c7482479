"""`demitasse demo`: the same small search at several cuts of the built-in model, with what each cut costs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from rich.console import Console
from rich.table import Table

from demitasse.corpus import corpus
from demitasse.cut import Cut
from demitasse.encoder import Encoder, Vectors
from demitasse.loading import load

CUTS = (Cut(6, 384), Cut(6, 64), Cut(3, 128), Cut(1, 128), Cut(0, 128))
QUERIES = (
    "my bank card has been stolen",
    "the house is cold and the radiators are noisy",
    "how to make better espresso at home",
    "which animals live in clean water?",
)
NEIGHBOURS = 10
ROUNDS = 5


@dataclass(frozen=True)
class Row:
    """What one cut costs and how far it agrees with the full model."""

    cut: Cut
    model_bytes: int
    texts_a_second: float
    query_ms: float
    same_first: float  # share of texts whose nearest neighbour is the full model's
    shared_neighbours: float  # mean share of the ten nearest that are among the full model's


def measure(encoder: Encoder, texts: Sequence[str], cuts: Sequence[Cut] = CUTS, rounds: int = ROUNDS) -> list[Row]:
    """Every cut on `texts`, timed in turns, each text also sought among the others."""
    encoders = [encoder.cut(*cut) for cut in cuts]
    vectors = [small.encode(texts, progress=False) for small in encoders]  # warms up, too
    batch_seconds: list[list[float]] = [[] for _ in cuts]
    query_seconds: list[list[float]] = [[] for _ in cuts]
    for turn in range(rounds):
        for place, small in enumerate(encoders):
            batch_seconds[place].append(_seconds(small, texts))
            query_seconds[place] += [_seconds(small, [text]) for text in texts[turn::rounds][:20]]
    nearest = [_nearest(rows) for rows in vectors]
    rows = []
    for place, cut in enumerate(cuts):
        shared = [len({*ours} & {*full}) / NEIGHBOURS for ours, full in zip(nearest[place], nearest[0], strict=True)]
        rows.append(
            Row(
                cut,
                encoder.model_bytes(cut),
                len(texts) / median(batch_seconds[place]),
                1000 * median(query_seconds[place]),
                float(np.mean(nearest[place][:, 0] == nearest[0][:, 0])),
                float(np.mean(shared)),
            )
        )
    return rows


def show(queries: Sequence[str] | None = None, console: Console | None = None) -> None:
    """Search the corpus for `queries` and print what every cut finds and costs."""
    console = console or Console()
    encoder, texts = load(), corpus()
    queries = list(queries or QUERIES)
    console.print(f"{encoder!r}")
    console.print(f"{len(texts)} sentences, searched at {len(CUTS)} cuts of this one model, written layers x dims\n")
    documents = encoder.encode_cuts(texts, CUTS, progress=False)
    asked = encoder.encode_cuts(queries, CUTS, progress=False)
    for number, query in enumerate(queries):
        console.print(query, style="bold", highlight=False, markup=False)
        for cut in CUTS:
            best = texts[int(np.argmax(documents[cut] @ asked[cut][number]))]
            console.print(f"  {cut!s:>6}  {best}", highlight=False, markup=False, no_wrap=True, overflow="ellipsis")
        console.print()
    table = Table(title="what each cut costs here, and how far it agrees with the full model", title_justify="left")
    for heading in (
        "cut",
        "model MB",
        "vector bytes",
        "texts/s",
        "one text, ms",
        "same first hit",
        "same ten hits",
    ):
        table.add_column(heading, justify="right")
    for row in measure(encoder, texts):
        table.add_row(
            str(row.cut),
            f"{row.model_bytes / 1e6:.1f}",
            str(4 * row.cut.dims),
            f"{row.texts_a_second:,.0f}",
            f"{row.query_ms:.2f}",
            f"{row.same_first:.0%}",
            f"{row.shared_neighbours:.0%}",
        )
    console.print(table)


def _seconds(encoder: Encoder, texts: Sequence[str]) -> float:
    begun = time.perf_counter()
    encoder.encode(texts, progress=False)
    return time.perf_counter() - begun


def _nearest(vectors: Vectors) -> np.ndarray:
    """The ten nearest others of each row, nearest first."""
    scores = vectors @ vectors.T
    np.fill_diagonal(scores, -np.inf)
    return np.argsort(-scores, axis=1, kind="stable")[:, :NEIGHBOURS]
