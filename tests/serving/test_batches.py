from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demitasse import Cut, DataError, Encoder, load
from demitasse.host.bundled import corpus
from demitasse.serving.batches import Embedded, Part, Passes, embed_parts, similar_lengths
from demitasse.serving.reading import Prompts, Unread

TEXTS = corpus()


@pytest.fixture(scope="module")
def blocks() -> Encoder:
    return load()


@given(st.lists(st.integers(1, 300), min_size=1, max_size=60), st.integers(1, 500), st.integers(1, 500))
def test_passes_hold_every_text_once_and_waste_little(given_lengths: list[int], cost: int, most: int) -> None:
    lengths = np.array(given_lengths)
    groups = similar_lengths(lengths, Passes(cost, most))
    assert sorted(np.concatenate(groups).tolist()) == list(range(len(lengths)))
    for group in groups:
        longest = int(lengths[group].max())
        assert len(group) == 1 or len(group) * longest <= most
        shorter = np.sort(lengths[group])
        # No cut in two would save more than a pass costs.
        assert max((longest - shorter[:count].max()) * count for count in range(1, len(group) + 1)) <= cost


def test_parts_that_were_read_and_parts_that_were_not_share_a_batch(blocks: Encoder) -> None:
    long = [" ".join(TEXTS[:30]), "a"]
    parts = [
        Part(blocks.reader.read(TEXTS[:3]), Cut(6, 384), None),
        Part(Unread(TEXTS[3:5], None), Cut(2, 64), None),
        Part(Unread(long, "document"), Cut(1, 128), "document"),
        Part(Unread(["a"], None), Cut(0, 32), None),
    ]
    results = [result for result in embed_parts(blocks, Prompts(blocks), parts) if isinstance(result, Embedded)]
    expected = [blocks.encode(TEXTS[:3]), blocks.cut(2, 64).encode(TEXTS[3:5]), blocks.cut(1, 128).encode(long)]
    for result, vectors in zip(results, [*expected, blocks.cut(0, 32).encode(["a"])], strict=True):
        np.testing.assert_allclose(result.vectors, vectors, rtol=0, atol=1e-5)
    assert [result.tokens for result in results[2:]] == [256 + 3, 3]
    assert [result.truncated for result in results] == [0, 0, 1, 0]


def test_what_is_wrong_with_one_part_is_not_the_others_problem(blocks: Encoder) -> None:
    wrong: list[str] = ["x", None]  # type: ignore[list-item]
    given = [Unread(["a"], None), Unread(wrong, None), Unread(["b"], "query"), Unread(["c"], None)]
    first, second, third, fourth = embed_parts(
        blocks, Prompts(blocks), [Part(one, Cut(1, 8), one.kind) for one in given]
    )
    assert isinstance(second, DataError)
    for text, result in (("a", first), ("b", third), ("c", fourth)):
        assert isinstance(result, Embedded)
        np.testing.assert_allclose(result.vectors, blocks.cut(1, 8).encode([text]), rtol=0, atol=1e-5)


def test_nothing_but_errors_is_a_batch_too(blocks: Encoder) -> None:
    wrong: list[str] = [None]  # type: ignore[list-item]
    (result,) = embed_parts(blocks, Prompts(blocks), [Part(Unread(wrong, None), Cut(1, 8), None)])
    assert isinstance(result, DataError)
