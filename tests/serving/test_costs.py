from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paths import ROOT

from demitasse import read_profile
from demitasse.serving.costs import (
    BatchSize,
    Costs,
    Work,
    full_batch,
    guess_from_profile,
    guess_from_runs,
    learnt,
    rate,
)

TRUE = Costs((3e-4, 1e-4, 4e-6, 1.6e-5))


def random_work(generator: random.Random) -> Work:
    deepest, tokens = generator.randint(0, 6), generator.randint(3, 256)
    return Work(deepest, tokens, int(tokens * deepest * generator.uniform(0.4, 1)))


def test_costs_are_learnt_from_varied_batches_whatever_the_guess() -> None:
    generator = random.Random(0)
    for guess in ((1e-3, 2e-5, 1e-6, 5e-5), (5e-5, 3e-4, 2e-5, 4e-6), TRUE.guess):
        costs = Costs(guess)
        for _ in range(600):
            work = random_work(generator)
            costs = learnt(costs, work, TRUE.seconds(work) * generator.uniform(0.9, 1.1))
        for _ in range(200):
            work = random_work(generator)
            true = TRUE.seconds(work)
            # A wrong guess about batches that take no time is corrected last.
            assert costs.seconds(work) == pytest.approx(true, rel=0.15 if true > 0.003 else 0.5)


def test_a_machine_that_becomes_slower_is_noticed_within_a_few_batches() -> None:
    costs, work = TRUE, Work(6, 200, 1200)
    for _ in range(40):
        costs = learnt(costs, work, 3 * TRUE.seconds(work))
    # Depths that were not seen meanwhile are expected to be slower too.
    for other in (work, Work(1, 200, 200), Work(3, 14, 42)):
        assert costs.seconds(other) == pytest.approx(3 * TRUE.seconds(other), rel=0.35)


def test_one_interrupted_batch_changes_little() -> None:
    costs, work = TRUE, Work(6, 200, 1200)
    for _ in range(30):
        costs = learnt(costs, work, TRUE.seconds(work))
    costs = learnt(costs, work, 1000 * TRUE.seconds(work))
    assert costs.seconds(work) < 1.25 * TRUE.seconds(work)


def test_more_layers_never_seem_to_cost_less() -> None:
    generator = random.Random(1)
    costs = TRUE
    for _ in range(300):  # times that have nothing to do with the work
        costs = learnt(costs, random_work(generator), generator.uniform(1e-4, 0.05))
        for layers in range(6):
            assert 0 <= costs.per_token(layers) <= costs.per_token(layers + 1)
            assert 0 <= costs.per_batch(layers) <= costs.per_batch(layers + 1)


def test_a_guess_from_four_runs_gives_their_times() -> None:
    runs = {
        (tokens, layers): TRUE.seconds(Work(layers, tokens, tokens * layers))
        for tokens in (4, 256)
        for layers in (0, 6)
    }
    assert guess_from_runs(runs).guess == pytest.approx(TRUE.guess)


def test_a_model_without_layers_has_costs_too() -> None:
    costs = guess_from_runs({(4, 0): 0.001, (256, 0): 0.003})
    assert costs.seconds(Work(0, 256, 0)) == pytest.approx(0.003)


@given(st.integers(0, 6), st.integers(1, 70000), st.floats(1e-6, 0.1))
def test_a_full_batch_takes_its_time_or_is_worth_its_start(layers: int, most: int, start: float) -> None:
    costs, size = Costs((start, 1e-4, 4e-6, 1.6e-5)), BatchSize(most, seconds=0.02)
    tokens = full_batch(costs, size, layers)
    assert 1 <= tokens <= most
    if 1 < tokens < most:
        tokens_take, started = tokens * costs.per_token(layers), costs.per_batch(layers)
        assert tokens_take + started <= 0.02 or tokens_take <= 8 * started + 1e-12
        assert (tokens + 1) * costs.per_token(layers) + started > 0.02
    assert rate(costs, size, layers) * tokens == pytest.approx(costs.seconds(Work(layers, tokens, tokens * layers)))


def test_times_that_make_no_sense_are_still_a_guess() -> None:
    assert min(guess_from_runs({(4, 0): 1.0, (4, 6): 0.1, (256, 0): 0.2, (256, 6): 0.01}).guess) > 0


def test_a_guess_from_a_profile_is_near_its_times() -> None:
    profile = read_profile(ROOT / "research" / "results" / "profile-built-in.json")
    rows = [row for row in profile.rows if row.vectors == "float32" and row.cut.dims == 384]
    costs = guess_from_profile(rows, workers=2)
    for row in rows:
        layers = row.cut.layers
        one = costs.seconds(Work(layers, 16, 16 * layers))
        assert one == pytest.approx(row.timing.p50_ms / 1000, rel=0.4)
        many = Work(layers, 16 * 100, 16 * 100 * layers)
        assert 200 / costs.seconds(many) == pytest.approx(row.timing.texts_per_second, rel=0.25)
    for one_depth in (rows[:1], rows[-1:]):
        assert guess_from_profile(one_depth, workers=2).seconds(Work(3, 16, 48)) > 0
