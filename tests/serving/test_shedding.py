from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from demitasse.serving.costs import BatchSize, Costs, rate
from demitasse.serving.shedding import HOLD, USED, Demand, Level, Queue, chosen_layers, in_time, next_level

COSTS = Costs((2e-4, 1e-4, 2e-6, 1e-5))
FULL = Level(6)


def queries(count: int, wanted_by: float, floor: int = 1) -> list[tuple[Demand, int]]:
    return [(Demand(6, floor, wanted_by, wanted_by), 14)] * count


def queue(waiting: list[tuple[Demand, int]]) -> Queue:
    rates = [rate(COSTS, BatchSize(256, seconds=0.02), layers) for layers in range(7)]
    return Queue(waiting, rates, workers=2, batch_seconds=0.01)


def level_of(waiting: list[tuple[Demand, int]], now: float = 0.0) -> int:
    return next_level(FULL, 6, queue(waiting), now).layers


def test_the_more_waits_the_fewer_layers() -> None:
    levels = [level_of(queries(count, wanted_by=0.1)) for count in (1, 50, 100, 150, 250, 400)]
    assert levels == sorted(levels, reverse=True)
    assert levels[0] == 6
    assert levels[-1] <= 1


def test_the_level_is_the_deepest_that_is_in_time() -> None:
    waiting = queue(queries(120, wanted_by=0.1))
    found = next_level(FULL, 6, waiting, 0.0).layers
    assert 0 < found < 6
    assert in_time(waiting, found, 0.0, USED)
    assert not in_time(waiting, found + 1, 0.0, USED)


def test_what_may_not_be_shed_takes_time_and_does_not_lower_the_level() -> None:
    documents = [(Demand(6, 6, 0.05, 0.05), 14)] * 400
    assert level_of(documents) == 6
    assert level_of(documents + queries(1, wanted_by=0.1)) == 6  # it is too late for that one at any level
    assert level_of(documents[:50] + queries(80, wanted_by=0.1)) < level_of(queries(80, wanted_by=0.1))


def test_a_request_without_a_time_asks_for_nothing() -> None:
    assert level_of([(Demand(6, 1), 14)] * 5000) == 6


def test_one_that_is_lost_takes_no_layers_from_the_others() -> None:
    late = [(Demand(6, 1, 0.0001, 0.0001), 14)]
    assert level_of(late + queries(20, wanted_by=0.1)) == 6


def test_the_level_falls_at_once_and_rises_slowly() -> None:
    empty, crowd = queue([]), queue(queries(300, wanted_by=0.1))
    level = next_level(FULL, 6, crowd, 0.0)
    fallen = level.layers
    assert fallen < 3
    seen = []
    for tick in range(100):
        now = 0.0125 * tick
        level = next_level(level, 6, empty, now)
        seen.append(level.layers)
    assert seen == sorted(seen)
    assert seen[-1] == 6
    first = next(tick for tick, layers in enumerate(seen) if layers > fallen)
    last = seen.index(6)
    assert abs(first * 0.0125 - HOLD) < 0.02
    assert abs(last * 0.0125 - HOLD * (6 - fallen)) < 0.03


def test_after_a_pause_the_level_is_full_again() -> None:
    level = next_level(Level(1), 6, queue([]), 5.0)
    assert next_level(level, 6, queue([]), 15.0).layers == 6


def test_the_level_does_not_flap_between_two_depths() -> None:
    generator = random.Random(0)
    level, changes = FULL, 0
    for tick in range(1000):
        now = 0.005 * tick
        # As many as six layers can just about take, sometimes more.
        waiting = queries(generator.randint(70, 100), wanted_by=now + 0.1)
        after = next_level(level, 6, queue(waiting), now)
        changes += after.layers != level.layers
        level = after
    assert changes < 10


@given(
    layers=st.integers(0, 12),
    floor=st.integers(0, 12),
    level=st.integers(0, 12),
    tokens=st.integers(1, 500),
    left=st.floats(-1, 1),
)
def test_a_request_never_gets_more_than_it_asks_nor_less_than_its_floor(
    layers: int, floor: int, level: int, tokens: int, left: float
) -> None:
    demand = Demand(layers, min(layers, floor), left, left)
    chosen = chosen_layers(demand, tokens, level, COSTS, 0.0)
    assert demand.floor <= chosen <= layers
    assert chosen <= demand.layers_at(level)
    if chosen > demand.floor:
        assert COSTS.per_batch(chosen) + tokens * COSTS.per_token(chosen) <= left
    assert chosen_layers(replace(demand, wanted_by=None), tokens, level, COSTS, 0.0) == demand.layers_at(level)
