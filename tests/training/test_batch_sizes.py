from __future__ import annotations

import pytest
import zoo

from demitasse import DataError, Encoder, TrainOptions, read_pairs
from demitasse.data.sampler import Sampler
from demitasse.training.batch_sizes import batch_sizes, rows_per_batch

SHORT = [f"kan {word}" for word in zoo.WORDS]  # four tokens with their special ones
LONG = [" ".join([word] * 14) for word in zoo.WORDS]  # sixteen
PAIRS = list(zip(SHORT, LONG, strict=True))  # twenty


def test_sources_of_longer_texts_have_smaller_batches(encoder: Encoder) -> None:
    data = read_pairs(SHORT, LONG, PAIRS)
    sizes = batch_sizes(data, encoder.reader, TrainOptions(batch=30, batch_tokens=80))
    assert sizes == [20, 5, 4]
    assert batch_sizes(data, encoder.reader, TrainOptions(batch=12, batch_tokens=80)) == [12, 5, 4]
    assert batch_sizes(data, encoder.reader, TrainOptions(batch=12)) == [12, 12, 12]
    assert batch_sizes(data, encoder.reader, TrainOptions(batch=12, batch_tokens=1)) == [2, 2, 2]
    sampler, seen = Sampler(data, sizes, seed=0), dict[int, int]()
    for _ in range(60):
        batch = sampler.next()
        seen[batch.source] = max(seen.get(batch.source, 0), len(batch.rows))
    assert seen == {0: 20, 1: 5, 2: 4}


def test_only_two_texts_of_a_group_count(encoder: Encoder) -> None:
    groups = read_pairs([{"texts": LONG[n : n + 4]} for n in range(0, 40, 4)])
    assert batch_sizes(groups, encoder.reader, TrainOptions(batch=30, batch_tokens=160)) == [5]


def test_rows_of_a_batch_on_average(encoder: Encoder) -> None:
    data = read_pairs(SHORT, LONG, weights=[3, 1])
    assert rows_per_batch(data, [20, 4]) == 16
    assert rows_per_batch(data, [1000, 4]) == (3 * len(SHORT) + 4) / 4


def test_one_size_for_each_source() -> None:
    with pytest.raises(DataError, match="2 sizes of batches were given for 1 sources"):
        Sampler(read_pairs(SHORT), [4, 4], seed=0)
    with pytest.raises(DataError, match="batch=1 was given"):
        Sampler(read_pairs(SHORT), [1], seed=0)
