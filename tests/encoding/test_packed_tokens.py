from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from demitasse.encoding.packed_tokens import PackedTokens

LISTS = st.lists(st.lists(st.integers(0, 30000), max_size=9), min_size=1, max_size=9)


@given(LISTS, st.data())
def test_padded_batches_have_the_token_ids(texts: list[list[int]], data: st.DataObject) -> None:
    packed = PackedTokens.of(texts).without_empty(5)
    chosen = data.draw(st.lists(st.integers(0, len(texts) - 1), min_size=1))
    ids, mask = packed.padded(chosen, fill=1)
    assert ids.shape == mask.shape
    for position, index in enumerate(chosen):
        tokens = texts[index] or [5]
        assert ids[position][: len(tokens)].tolist() == tokens == packed.ids_of(index)
        assert mask[position].tolist() == [1] * len(tokens) + [0] * (ids.shape[1] - len(tokens))
        assert (ids[position][len(tokens) :] == 1).all()


@given(st.lists(LISTS, min_size=1, max_size=4))
def test_joined_tokens_keep_their_order(parts: list[list[list[int]]]) -> None:
    joined = PackedTokens.joined([PackedTokens.of(part) for part in parts])
    flat = [row for part in parts for row in part]
    assert [joined.ids_of(index) for index in range(len(joined))] == flat
    assert np.array_equal(joined.lengths, [len(row) for row in flat])


@given(LISTS, st.data())
def test_parts_choices_and_orders_have_the_ids_of_their_texts(texts: list[list[int]], data: st.DataObject) -> None:
    packed = PackedTokens.of(texts, [len(ids) + 3 for ids in texts])

    def ids(some: PackedTokens) -> list[list[int]]:
        return [some.ids_of(index) for index in range(len(some))]

    begin = data.draw(st.integers(0, len(texts) - 1))
    end = data.draw(st.integers(begin + 1, len(texts)))
    part = packed.part(begin, end)
    assert ids(part) == texts[begin:end]
    assert len(part.ids) == sum(map(len, texts[begin:end]))
    chosen = data.draw(st.lists(st.integers(0, len(texts) - 1), min_size=1))
    assert ids(packed.chosen(chosen)) == [texts[index] for index in chosen]
    order = data.draw(st.permutations(range(len(texts))))
    ordered = packed.ordered(np.array(order))
    assert ids(ordered) == [texts[index] for index in order]
    assert ids(ordered.part(begin, end)) == [texts[index] for index in order][begin:end]
    assert ordered.whole_lengths.tolist() == [len(texts[index]) + 3 for index in order]
