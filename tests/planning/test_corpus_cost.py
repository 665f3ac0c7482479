from __future__ import annotations

import pytest
import zoo
from profiles import made_profile

from demitasse import DataError, Encoder
from demitasse.display.cost_table import in_bytes
from demitasse.planning.corpus_cost import corpus_costs, corpus_front, time_sample


def test_costs_follow_from_rates_and_sizes() -> None:
    row = made_profile().rows[0]
    (cost,) = corpus_costs([row], 3600e3, {row.cut.layers: 1000.0}, euros_per_hour=0.5)
    assert (cost.count, cost.hours, cost.euros) == (3_600_000, 1.0, 0.5)
    assert cost.vector_bytes == 3_600_000 * row.vector_bytes
    assert cost.index_bytes > 3_600_000 * row.cut.dims
    (unpriced,) = corpus_costs([row], 10)
    assert unpriced.euros is None
    assert unpriced.texts_per_second == row.timing.texts_per_second
    assert unpriced.as_plain()["corpus"]["vector_bytes"] == 10 * row.vector_bytes


def test_nothing_on_the_front_is_beaten() -> None:
    profile = made_profile()
    among = profile.select(vectors=["int8"])
    front = corpus_front(profile, among)
    assert front
    assert {*front} <= {*among}
    for one in front:
        assert not any(
            other.quality >= one.quality
            and other.timing.texts_per_second > one.timing.texts_per_second
            and other.vector_bytes <= one.vector_bytes
            for other in among
        )


@pytest.mark.parametrize("count", [0, -1, float("nan"), "many", 0.5])
def test_a_wrong_count_is_refused(count: float) -> None:
    with pytest.raises(DataError, match="count must be"):
        corpus_costs(made_profile().rows, count)


def test_a_sample_is_timed_at_each_depth_by_the_clock(encoder: Encoder) -> None:
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 1
        return now

    rates = time_sample(encoder.cut(2, 8), [0, 2], zoo.sentences(1000), seconds=20, clock=clock)
    # Each call takes a second by this clock: 1,000 texts in the time for two.
    assert rates == {0: 2000.0, 2: 2000.0}


def test_a_small_sample_is_refused(encoder: Encoder) -> None:
    with pytest.raises(DataError, match="the sample has 3 texts; give at least 1,000"):
        time_sample(encoder, [0], ["a", "b", "c"])


def test_bytes_are_said_in_three_digits() -> None:
    assert [in_bytes(count) for count in (5, 1000, 123_456, 10**18)] == ["5 B", "1 kB", "123 kB", "1e+03 PB"]
