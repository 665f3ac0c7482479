from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from demitasse.serving.lanes import REST_SHARE, Lanes, Piece


def drained(lanes: Lanes[str], budget: int) -> list[list[Piece[str]]]:
    batches = []
    while len(lanes):
        batches.append(lanes.take(budget))
    return batches


def test_small_requests_share_a_batch_in_order() -> None:
    lanes: Lanes[str] = Lanes()
    for key in "abc":
        lanes.add(key, [4, 4])
    assert lanes.take(20) == [Piece("a", 0, 2, 8), Piece("b", 0, 2, 8), Piece("c", 0, 1, 4)]
    assert lanes.take(20) == [Piece("c", 1, 2, 4)]
    assert not len(lanes)
    assert lanes.take(20) == []


def test_a_text_longer_than_a_batch_is_one() -> None:
    lanes: Lanes[str] = Lanes()
    lanes.add("a", [50, 50])
    lanes.add("b", [1])
    assert [piece.key for batch in drained(lanes, 20) for piece in batch] == ["a", "b", "a"]


@given(
    st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=40), min_size=1, max_size=12),
    st.integers(1, 64),
)
def test_every_text_is_taken_once_and_in_order(requests: list[list[int]], budget: int) -> None:
    lanes: Lanes[int] = Lanes()
    for key, lengths in enumerate(requests):
        lanes.add(key, lengths)
    assert lanes.tokens == sum(map(sum, requests))
    seen: dict[int, int] = dict.fromkeys(range(len(requests)), 0)
    while len(lanes):
        batch = lanes.take(budget)
        tokens = sum(piece.tokens for piece in batch)
        assert batch
        assert tokens <= budget or sum(piece.end - piece.begin for piece in batch) == 1
        for piece in batch:
            assert piece.begin == seen[piece.key]
            assert piece.tokens == sum(requests[piece.key][piece.begin : piece.end])
            seen[piece.key] = piece.end
    assert seen == {key: len(lengths) for key, lengths in enumerate(requests)}
    assert lanes.tokens == 0


def test_a_stream_of_small_requests_does_not_starve_a_large_one() -> None:
    lanes: Lanes[str] = Lanes()
    lanes.add("large", [10] * 10_000)
    lanes.take(100)
    taken = 0
    for batch in range(400):
        for small in range(12):  # more than a batch holds
            lanes.add(f"{batch} {small}", [10])
        taken += sum(piece.tokens for piece in lanes.take(100) if piece.key == "large")
    assert abs(taken / (400 * 100) - REST_SHARE) < 0.02


def test_large_requests_do_not_make_a_small_one_wait() -> None:
    lanes: Lanes[str] = Lanes()
    for key in "abcdefgh":
        lanes.add(key, [10] * 1000)
    drained_first = [lanes.take(100) for _ in range(50)]
    assert {piece.key for batch in drained_first for piece in batch} == {*"abcdefgh"}  # they take turns
    lanes.add("small", [10])
    assert "small" in [piece.key for piece in lanes.take(100)]


def test_large_requests_take_turns() -> None:
    lanes: Lanes[str] = Lanes()
    for key in "ab":
        lanes.add(key, [10] * 30)
    assert [batch[0].key for batch in drained(lanes, 100)] == ["a", "b", "a", "b", "a", "b"]


def test_what_is_removed_is_gone_and_its_key_can_come_again() -> None:
    generator = random.Random(0)
    lanes: Lanes[int] = Lanes()
    for key in range(50):
        lanes.add(key, [generator.randint(1, 9) for _ in range(generator.randint(1, 20))])
    lanes.take(60)
    for key in range(0, 50, 2):
        lanes.remove(key)
        lanes.remove(key)  # nothing is left to remove
    lanes.add(0, [5])
    assert 0 in list(lanes.new())
    tokens, taken = lanes.tokens, []
    while len(lanes):
        taken += lanes.take(60)
    assert sum(piece.tokens for piece in taken) == tokens
    assert {piece.key for piece in taken if piece.key % 2 == 0} == {0}
    assert [piece for piece in taken if piece.key == 0] == [Piece(0, 0, 1, 5)]


def test_those_that_have_left_take_no_memory() -> None:
    lanes: Lanes[int] = Lanes()
    lanes.add(-1, [5])
    for key in range(10_000):  # no worker is free meanwhile
        lanes.add(key, [5])
        lanes.remove(key)
    assert len(lanes._new) < 200
    assert [piece.key for piece in lanes.take(100)] == [-1]
