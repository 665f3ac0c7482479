from __future__ import annotations

import gc
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demitasse.planning.timing import BATCHES, LEAST_ROUNDS, SINGLES, Encode, Work, plan_work, time_in_turns

WORK = plan_work([("a" * length, None) for length in range(1, 101)], [("a cup", None)] * 320, batch=32)


class World:
    """Encoders that take a given time, on a clock that only they move."""

    def __init__(self) -> None:
        self.now = 0.0
        self.made: list[str] = []
        self.calls: list[tuple[str, int]] = []

    def clock(self) -> float:
        return self.now

    def encoder(self, name: str, single: float, batch: float, disturbed: Sequence[int] = ()) -> Callable[[], Encode]:
        """Takes `single` seconds per character of a single text, 100 times that if its number is in `disturbed`."""

        def make() -> Encode:
            self.made.append(name)
            slow = 100 if self.made.count(name) in disturbed else 1

            def encode(texts: Sequence[str], prompt: str | None) -> None:
                self.calls.append((name, len(texts)))
                self.now += slow * (single * len(texts[0]) if len(texts) == 1 else batch)

            return encode

        return make

    def time(self, encoders: dict[str, Callable[[], Encode]], rounds: int = 6, seconds: float = 1e9, work: Work = WORK):  # type: ignore[no-untyped-def]
        return time_in_turns(encoders, work, rounds=rounds, seconds=seconds, clock=self.clock)


def test_steady_encoders_have_exact_times_and_no_noise() -> None:
    world = World()
    timings, rounds = world.time({"slow": world.encoder("slow", 0.001, 0.5), "fast": world.encoder("fast", 1e-4, 0.1)})
    assert rounds == 6
    assert timings["slow"].p50_ms == pytest.approx(50, abs=2)  # of texts of 1 to 100 characters
    assert timings["slow"].p95_ms == pytest.approx(95, abs=2)
    assert timings["slow"].texts_per_second == pytest.approx(64)
    assert timings["fast"].p95_ms == pytest.approx(timings["slow"].p95_ms / 10)
    assert timings["fast"].texts_per_second == pytest.approx(320)
    assert timings["slow"].noise == pytest.approx(0, abs=1e-9)


def test_one_disturbed_round_changes_nothing_and_several_show_as_noise() -> None:
    world = World()
    quiet = world.time({"a": world.encoder("a", 0.001, 0.5)})[0]["a"]
    # The first instance is for warming up.
    one = world.time({"b": world.encoder("b", 0.001, 0.5, disturbed=[3])})[0]["b"]
    many = world.time({"c": world.encoder("c", 0.001, 0.5, disturbed=[3, 5])})[0]["c"]
    assert one.p95_ms == pytest.approx(quiet.p95_ms)
    assert one.texts_per_second == pytest.approx(quiet.texts_per_second)
    assert one.noise == pytest.approx(0, abs=1e-9)
    assert many.p95_ms == pytest.approx(quiet.p95_ms)
    assert many.noise > 0.2


def test_every_round_visits_every_encoder_once_in_a_different_order() -> None:
    world = World()
    names = ["a", "b", "c", "d", "e", "f", "g"]
    world.time({name: world.encoder(name, 0.001, 0.5) for name in names}, rounds=6)
    turns = [world.made[start : start + 7] for start in range(0, len(world.made), 7)]
    assert len(turns) == 7  # one to warm up, then the rounds
    assert all(sorted(turn) == names for turn in turns)
    assert len({turn[0] for turn in turns[1:]}) >= 4
    assert len({tuple(turn) for turn in turns[1:]}) == 6


def test_enough_single_texts_are_timed() -> None:
    world = World()
    world.time({"a": world.encoder("a", 0.001, 0.5)}, rounds=LEAST_ROUNDS)
    assert LEAST_ROUNDS * SINGLES >= 200
    assert sum(count == 1 for _, count in world.calls) >= LEAST_ROUNDS * SINGLES
    assert sum(count == 32 for _, count in world.calls) == LEAST_ROUNDS * BATCHES + 2


def test_little_time_means_fewer_batches_then_fewer_rounds() -> None:
    world = World()
    single = SINGLES * 50 * 0.001  # seconds that single texts take in a round
    timings, rounds = world.time({"a": world.encoder("a", 0.001, 0.5)}, rounds=20, seconds=20 * (single + 1.3))
    assert 16 <= rounds <= 20
    assert sum(count == 32 for _, count in world.calls) in (2 * rounds + 2, 3 * rounds + 2)
    assert timings["a"].texts_per_second == pytest.approx(64)
    world = World()
    timings, rounds = world.time({"a": world.encoder("a", 0.001, 0.5)}, rounds=20, seconds=1e-3)
    assert rounds == LEAST_ROUNDS
    assert sum(count == 32 for _, count in world.calls) == LEAST_ROUNDS + 2


def test_garbage_is_not_collected_while_timing() -> None:
    seen: list[bool] = []

    def make() -> Encode:
        return lambda texts, prompt: seen.append(gc.isenabled())

    ticks = iter(range(10**6))
    time_in_turns({"a": make}, WORK, rounds=2, seconds=1, clock=lambda: next(ticks))
    assert seen
    assert not any(seen)
    assert gc.isenabled()

    def broken() -> Encode:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        time_in_turns({"a": broken}, WORK, rounds=2, seconds=1, clock=lambda: 0.0)
    assert gc.isenabled()


TEXTS = st.lists(st.tuples(st.text(max_size=30), st.sampled_from([None, "query", "document"])), min_size=1, max_size=90)


@given(TEXTS, TEXTS, st.integers(1, 40))
def test_work_consists_of_the_texts_given(singles: list, batched: list, batch: int) -> None:
    work = plan_work(singles, batched, batch)
    assert len(work.singles) == SINGLES
    assert {(texts[0], prompt) for texts, prompt in work.singles} <= {*singles}
    assert 1 <= len(work.batches) <= BATCHES
    for texts, prompt in work.batches:
        assert len(texts) == batch
        assert {(text, prompt) for text in texts} <= {*batched}


def test_single_texts_are_as_long_as_those_given() -> None:
    lengths = sorted(len(texts[0]) for texts, _ in WORK.singles)
    assert lengths[0] <= 3
    assert lengths[-1] >= 98
    assert lengths[SINGLES // 2] == pytest.approx(50, abs=3)
    assert [len(texts[0]) for texts, _ in WORK.singles] != lengths  # long ones are not last


def test_no_text_is_in_two_batches_if_there_are_enough() -> None:
    work = plan_work([("a", None)], [(str(number), None) for number in range(1000)], batch=32)
    texts = [text for batch, _ in work.batches for text in batch]
    assert len(texts) == len({*texts}) == BATCHES * 32
