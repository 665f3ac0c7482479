from __future__ import annotations

from itertools import count, islice

from hypothesis import given
from hypothesis import strategies as st

from demitasse.encoding.batching import token_batches, windows


@given(st.lists(st.integers(1, 600)), st.integers(1, 4096))
def test_every_text_is_in_one_batch_within_the_budget(lengths: list[int], budget: int) -> None:
    batches = token_batches(lengths, budget)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        padded = len(batch) * max(lengths[index] for index in batch)
        assert padded <= budget or len(batch) == 1


@given(st.lists(st.integers(1, 600)), st.integers(1, 4096))
def test_batches_go_from_long_to_short(lengths: list[int], budget: int) -> None:
    flat = [lengths[index] for batch in token_batches(lengths, budget) for index in batch]
    assert flat == sorted(lengths, reverse=True)


@given(st.lists(st.integers(1, 600)), st.integers(600, 4096), st.integers(1, 2000))
def test_much_shorter_texts_start_another_batch_once_one_is_large(lengths: list[int], budget: int, least: int) -> None:
    batches = token_batches(lengths, budget, least)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = lengths[batch[0]]
        assert len(batch) * longest <= budget
        # A text much shorter than the longest was added while the batch was still small.
        assert all(
            5 * lengths[index] >= 4 * longest or position * longest < least for position, index in enumerate(batch)
        )


@given(st.lists(st.text()), st.integers(1, 50), st.integers(1, 100))
def test_windows_keep_order_and_size(texts: list[str], size: int, characters: int) -> None:
    made = list(windows(texts, size, characters))
    assert [text for window in made for text in window] == texts
    for window in made[:-1]:
        assert len(window) == size or sum(map(len, window)) >= characters
        assert len(window) <= size
        assert sum(map(len, window[:-1])) < characters


def test_windows_read_no_further_than_needed() -> None:
    source = map(str, count())
    assert list(islice(windows(source, 3), 2)) == [["0", "1", "2"], ["3", "4", "5"]]
    assert next(source) == "6"
