from __future__ import annotations

import random
from statistics import fmean, median

import pytest
from paths import ROOT
from simulated_server import Arrival, exactly, simulate

from demitasse import DataError, read_profile
from demitasse.serving.costs import BatchSize, Costs
from demitasse.serving.refusals import QueueFull, TooManyTokens
from demitasse.serving.scheduler import Limits, Scheduler
from demitasse.serving.shedding import Demand

# As measured with the built-in model on two cores (the table of README), ten times slower.
TRUE = Costs((2.1e-3, 1.5e-4, 4e-5, 1.2e-4))
CAPACITY = 187  # texts of 14 tokens at six layers that two workers answer per second


def scheduler(costs: Costs = TRUE, *, workers: int = 2, tokens: int = 500_000, seconds: float = 30.0) -> Scheduler:
    return Scheduler(Limits(workers, BatchSize(256, seconds=0.02), tokens, seconds), layers=6, costs=costs)


def waiting(given: Scheduler, lengths: list[int], layers: int = 6, **demand: object) -> object:
    wanted = Demand(layers, **{"floor": layers, **demand})  # type: ignore[arg-type]
    ticket = given.admit(wanted, sum(lengths), now=0.0)
    given.ready(ticket, lengths)
    return ticket


def test_an_idle_worker_starts_at_once_with_what_is_there() -> None:
    given = scheduler()
    assert given.next_batch(0.0) is None
    first = waiting(given, [14])
    batch = given.next_batch(0.0)
    assert batch is not None
    assert [(piece.key, piece.begin, piece.end) for piece in batch.pieces] == [(first, 0, 1)]
    waiting(given, [14])
    assert given.next_batch(0.0) is not None  # the other worker
    waiting(given, [14])
    assert given.next_batch(0.0) is None  # both are busy
    given.finished(batch, 0.01)
    assert given.next_batch(0.01) is not None


def test_a_few_texts_are_spread_over_idle_workers() -> None:
    given = scheduler()
    waiting(given, [3] * 6)
    batches = [given.next_batch(0.0), given.next_batch(0.0)]
    assert [batch.work.tokens for batch in batches if batch] == [9, 9]


def test_requests_of_different_depths_share_a_batch() -> None:
    given = scheduler(workers=1)
    for layers in (0, 3, 6):
        waiting(given, [5], layers)
    batch = given.next_batch(0.0)
    assert batch is not None
    assert [piece.key.layers for piece in batch.pieces] == [0, 3, 6]
    assert batch.work == (6, 15, 45)


def test_the_layers_allowed_now_rise_while_nothing_is_asked() -> None:
    given = scheduler(workers=1)
    for _ in range(60):
        waiting(given, [14], floor=1, wanted_by=0.4)
    now, seen = 0.0, []
    while batch := given.next_batch(now):
        seen.append(given.load(now).layers)
        now += 0.02
        given.finished(batch, now)
    assert min(seen) < 6
    idle = [given.load(now + 0.05 * tick).layers for tick in range(40)]
    assert idle == sorted(idle)
    assert idle[-1] == 6


def test_a_small_request_does_not_wait_for_huge_ones() -> None:
    huge = [Arrival(0.0, [20] * 5000, 6) for _ in range(3)]
    small = [Arrival(0.5 + 0.1 * number, [14], 6) for number in range(100)]
    simulate(scheduler(seconds=1000), exactly(TRUE), [*huge, *small])
    assert all(arrival.took is not None for arrival in (*huge, *small))
    assert max(arrival.took or 0 for arrival in small) < 0.1


def test_a_huge_request_is_done_though_small_ones_never_stop_coming() -> None:
    texts = 800
    alone = Arrival(0.0, [14] * texts, 6)
    simulate(scheduler(), exactly(TRUE), [alone])
    assert alone.took is not None
    huge = Arrival(0.0, [14] * texts, 6)
    # Half as many again as the machine can take.
    stream = [Arrival(number / (1.5 * CAPACITY), [14], 6, timeout=1.0) for number in range(int(30 * 1.5 * CAPACITY))]
    simulate(scheduler(), exactly(TRUE), [huge, *stream])
    assert huge.took is not None
    assert huge.took < 5 * alone.took  # a quarter of the machine
    assert fmean(arrival.in_time for arrival in stream) > 0.4


def test_a_middling_request_passes_a_huge_one() -> None:
    huge, middling = Arrival(0.0, [20] * 5000, 6), Arrival(1.0, [20] * 50, 6)
    simulate(scheduler(), exactly(TRUE), [huge, middling])
    assert huge.took is not None
    assert middling.took is not None
    assert middling.took < 0.05 * huge.took


def test_what_a_client_that_left_asked_for_is_not_computed() -> None:
    given = scheduler(workers=1)
    gone, staying = waiting(given, [10] * 1000), waiting(given, [10])
    batch = given.next_batch(0.0)
    assert batch is not None
    given.leave(gone)  # type: ignore[arg-type]
    given.leave(gone)  # type: ignore[arg-type]
    assert given.load(0.0).queue_tokens == sum(10 for piece in [staying] if piece not in [p.key for p in batch.pieces])
    given.finished(batch, 0.1)
    after = given.next_batch(0.1)
    assert [piece.key for piece in (after.pieces if after else [])] in ([], [staying])
    assert given.load(0.1).queue_requests == 0


def test_places_are_free_again_however_requests_end() -> None:
    generator = random.Random(0)
    arrivals = [
        Arrival(
            generator.uniform(0, 5),
            [generator.randint(1, 60) for _ in range(generator.choice([1, 1, 1, 5, 100]))],
            generator.randint(0, 6),
            floor=generator.choice([None, 0]),
            timeout=generator.choice([None, 0.2, 2.0]),
            leaves_at=generator.choice([None, None, 3.0]),
        )
        for _ in range(400)
    ]
    given = scheduler()
    simulate(given, exactly(TRUE), arrivals)
    load = given.load(99.0)
    assert (load.queue_requests, load.queue_tokens, load.running) == (0, 0, 0)
    assert load.queue_seconds == pytest.approx(0)
    assert {key: count for key, count in given._first.items() if count} == {}


def test_the_queue_is_bounded_in_tokens() -> None:
    given = scheduler(tokens=1000)
    waiting(given, [14] * 60)
    with pytest.raises(QueueFull, match="try again in") as caught:
        waiting(given, [14] * 20)
    assert caught.value.retry_after > 0
    waiting(given, [14] * 5)
    assert given.load(0.0).refused == 1
    with pytest.raises(TooManyTokens, match="1120 tokens and the server takes 1000 at a time") as too_many:
        waiting(given, [14] * 80)
    assert isinstance(too_many.value, DataError)


def test_the_queue_is_bounded_in_tokens_that_were_not_expected_too() -> None:
    given = scheduler(tokens=1000)
    ticket = given.admit(Demand(6, 6), tokens=300, now=0.0)
    other = given.admit(Demand(6, 6), tokens=300, now=0.0)
    given.ready(ticket, [300] * 2)
    with pytest.raises(QueueFull):
        given.ready(other, [300] * 2)
    given.leave(other)
    assert given.load(0.0).queue_tokens == 600
    more = given.admit(Demand(6, 6), tokens=400, now=0.0)
    given.ready(more, [100])  # fewer than expected is fine
    assert given.load(0.0).queue_tokens == 700


def test_the_queue_is_bounded_in_seconds() -> None:
    given = scheduler(seconds=1.0)
    for _ in range(300):
        try:
            waiting(given, [14])
        except QueueFull:
            break
    assert given.load(0.0).queue_seconds == pytest.approx(1.0, abs=0.1)


def test_an_idle_server_takes_a_request_whatever_it_expects() -> None:
    given = scheduler(Costs(tuple(1000 * part for part in TRUE.guess)))
    for number in range(300):  # it learns that it is faster than it thought
        waiting(given, [14], wanted_by=0.1, deadline=0.1)
        batch = given.next_batch(0.0)
        assert batch is not None
        given.finished(batch, TRUE.seconds(batch.work))
        if number > 250:
            assert given.costs.seconds(batch.work) == pytest.approx(TRUE.seconds(batch.work), rel=0.2)


def test_a_request_is_refused_only_if_its_floor_misses_too() -> None:
    def full_of_queries() -> Scheduler:
        given = scheduler()
        for _ in range(30):
            waiting(given, [14], floor=1, wanted_by=0.5, deadline=0.5)
        return given

    given = full_of_queries()
    waiting(given, [14], floor=1, wanted_by=0.15, deadline=0.15)
    with pytest.raises(QueueFull) as caught:
        waiting(full_of_queries(), [14] * 14, floor=6, wanted_by=0.15, deadline=0.15)
    assert 0.05 < caught.value.retry_after < 0.5
    with pytest.raises(QueueFull):
        waiting(given, [14], floor=1, wanted_by=0.03, deadline=0.03)


def test_an_overload_ramp_is_answered_with_fewer_layers() -> None:
    profile = read_profile(ROOT / "research" / "results" / "profile-built-in.json")
    rows = profile.select(vectors=["float32"])
    quality = {row.cut.layers: row.quality for row in rows if row.cut.dims == 384}

    def ramp(floor: int, seed: int) -> tuple[int, float, list[float]]:
        """From half of what the machine can take at all layers to four times as much, every answer within 300 ms."""
        generator, arrivals, now = random.Random(seed), [], 0.0
        while now < 20:
            now += generator.expovariate(CAPACITY * (0.5 + 3.5 * now / 20))
            arrivals.append(Arrival(now, [max(3, int(generator.gauss(14, 3)))], 6, floor, timeout=0.3))
        given = scheduler(Costs(tuple(part * generator.uniform(0.5, 2) for part in TRUE.guess)))
        simulate(given, lambda work, at: TRUE.seconds(work) * generator.uniform(0.8, 1.2), arrivals)
        answered = [arrival for arrival in arrivals if arrival.in_time]
        used = [arrival.used_layers for arrival in answered if arrival.used_layers is not None]
        load = given.load(99.0)
        assert load.layers_shed >= sum(6 - layers for layers in used)
        return len(answered), fmean(quality[layers] for layers in used), [arrival.took or 0 for arrival in answered]

    without, full_quality, _ = ramp(6, seed=0)
    assert full_quality == pytest.approx(quality[6])
    for floor in (1, 2):
        answered, mean_quality, took = ramp(floor, seed=floor)
        assert answered >= 2 * without
        assert mean_quality >= 0.97 * full_quality
        assert median(took) < 0.2


def test_a_light_load_sheds_nothing() -> None:
    generator, arrivals, now = random.Random(0), [], 0.0
    while now < 20:
        now += generator.expovariate(0.5 * CAPACITY)
        arrivals.append(Arrival(now, [14], 6, floor=1, timeout=0.3))
    given = scheduler()
    simulate(given, exactly(TRUE), arrivals)
    assert all(arrival.in_time and arrival.used_layers == 6 for arrival in arrivals)
    assert given.load(99.0).layers_shed == 0


def test_documents_keep_their_layers_under_any_load() -> None:
    generator, arrivals, now = random.Random(0), [], 0.0
    while now < 5:
        now += generator.expovariate(4 * CAPACITY)
        is_query = generator.random() < 0.8
        arrivals.append(Arrival(now, [14], 6, floor=1 if is_query else None, timeout=0.3))
    simulate(scheduler(), exactly(TRUE), arrivals)
    answered = [arrival for arrival in arrivals if arrival.answered_at is not None]
    assert {arrival.used_layers for arrival in answered if arrival.floor is None} == {6}
    assert min(arrival.used_layers or 0 for arrival in answered if arrival.floor) < 3
