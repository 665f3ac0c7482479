"""How many rows the batches of each source have, so that all have about as many tokens."""

from __future__ import annotations

import numpy as np

from demitasse.data.pairs import Pairs, Source
from demitasse.encoding.reader import Reader
from demitasse.training.options import TrainOptions

_SAMPLED = 512  # rows of a source whose tokens are counted


def batch_sizes(data: Pairs, reader: Reader, options: TrainOptions) -> list[int]:
    """Rows per batch for each source: `options.batch`, or fewer where these would exceed `options.batch_tokens`."""
    if options.batch_tokens is None:
        return [options.batch] * len(data.sources)
    rooms = [options.batch_tokens / _tokens_per_row(source, reader) for source in data.sources]
    return [max(2, min(options.batch, round(room))) for room in rooms]


def rows_per_batch(data: Pairs, sizes: list[int]) -> float:
    """The mean number of rows in a batch, since sources are drawn by weight."""
    weights = np.array([source.weight for source in data.sources])
    return float((weights * np.minimum(sizes, [len(source) for source in data.sources])).sum() / weights.sum())


def _tokens_per_row(source: Source, reader: Reader) -> float:
    """How many tokens a row of `source` has on average, as far as they are used."""
    rows = np.unique(np.linspace(0, len(source) - 1, _SAMPLED).round().astype(int)).tolist()
    examples = [source[row].texts for row in rows]
    counts = reader.read([text for texts in examples for text in texts]).lengths
    used = 2 / np.mean([len(texts) for texts in examples]) if source.kind == "groups" else 1.0
    return float(counts.sum() / len(rows) * used)
