"""Group after group of texts: the vectors of `encode`, and the next group taken before the last is done."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import zoo

import demitasse as dt
from demitasse import Encoder
from demitasse.encoding import batching
from demitasse.encoding.groups import encode_groups
from demitasse.encoding.token_tally import TokenTally

SIZES = [0, 20, 1, 0, 33, 16, 0]
GROUPS = [[f"{text} {number}" for text in zoo.sentences(size, seed=number)] for number, size in enumerate(SIZES)]


@pytest.fixture(params=["torch", "blocks"])
def any_encoder(request: pytest.FixtureRequest, encoder: Encoder) -> Encoder:
    return encoder if request.param == "torch" else dt.load().cut(1, 32)


@pytest.fixture(autouse=True)
def _small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of eight texts, as growing ones as those of a GPU."""
    small = batching.Pace(8, 1 << 20, 64, first=4)
    monkeypatch.setattr(batching, "_PACES", dict.fromkeys(batching._PACES, small))


def test_each_group_has_the_vectors_of_encode_to_the_last_bit(any_encoder: Encoder) -> None:
    found = list(encode_groups(any_encoder, GROUPS, "", lambda done: None))
    assert [sum(map(len, group.windows)) for group in found] == SIZES
    for texts, group in zip(GROUPS, found, strict=True):
        empty = np.empty((0, any_encoder.dims), np.float32)
        vectors = np.concatenate([empty, *group.windows])
        np.testing.assert_array_equal(vectors, any_encoder.encode(texts))


def test_each_group_is_counted_by_itself(any_encoder: Encoder) -> None:
    done: list[int] = []
    groups = [[*texts, "a lungo " * 500] for texts in GROUPS]
    found = list(encode_groups(any_encoder, groups, "query: ", done.append))
    for texts, group in zip(groups, found, strict=True):
        tally = TokenTally()
        any_encoder.encode_cuts(texts, [any_encoder.full], prompt="query: ", tally=tally)
        assert group.tally == tally
        assert group.tally.truncated == 1
    assert sum(done) == sum(map(len, groups))


def test_the_next_group_is_taken_before_a_group_is_done_and_no_others() -> None:
    blocks = dt.load().cut(0, 32)
    taken: list[int] = []

    def groups() -> Iterator[list[str]]:
        for number in range(9):
            taken.append(number)
            yield zoo.sentences(20, seed=number)

    for number, _ in enumerate(encode_groups(blocks, groups(), "", lambda done: None)):
        assert len(taken) == min(9, number + 2)


def test_no_groups_are_no_vectors(any_encoder: Encoder) -> None:
    assert list(encode_groups(any_encoder, [], "", lambda done: None)) == []
