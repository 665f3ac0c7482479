from __future__ import annotations

from itertools import count, islice

from hypothesis import given
from hypothesis import strategies as st

from demitasse.batching import token_batches, windows


@given(st.lists(st.integers(1, 600)), st.integers(1, 4096))
def test_every_row_is_in_one_batch_within_the_budget(lengths: list[int], budget: int) -> None:
    batches = token_batches(lengths, budget)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        padded = len(batch) * max(lengths[index] for index in batch)
        assert padded <= budget or len(batch) == 1


@given(st.lists(st.integers(1, 600)), st.integers(1, 4096))
def test_batches_go_from_long_to_short(lengths: list[int], budget: int) -> None:
    flat = [lengths[index] for batch in token_batches(lengths, budget) for index in batch]
    assert flat == sorted(lengths, reverse=True)


@given(st.lists(st.integers()), st.integers(1, 50))
def test_windows_keep_order_and_size(items: list[int], size: int) -> None:
    made = list(windows(items, size))
    assert [item for window in made for item in window] == items
    assert all(len(window) == size for window in made[:-1])


def test_windows_read_no_further_than_they_give() -> None:
    source = count()
    assert list(islice(windows(source, 3), 2)) == [[0, 1, 2], [3, 4, 5]]
    assert next(source) == 6
