from __future__ import annotations

import math
from typing import Any

import pytest

from demitasse import DataError
from demitasse.training.options import SCHEDULES, TrainOptions

COUNTS = ("batch", "accumulate", "save_every", "steps", "micro_batch", "lora", "dev_every", "patience")
RATES = ("epochs", "rate", "exit_rate", "embedding_rate", "clip", "save_minutes")
BAD = [
    *(({name: 0}, f"{name} must be a whole number of at least 1, not 0") for name in COUNTS),
    ({"max_tokens": 3}, "max_tokens must be a whole number of at least 4, not 3"),
    ({"steps": -3}, "steps must be a whole number of at least 1, not -3"),
    *(({name: 0.0}, f"{name} must be a number above 0, not 0.0") for name in RATES),
    *(({name: math.nan}, f"{name} must be a finite number, not nan") for name in RATES),
    *(({name: math.inf}, f"{name} must be a finite number, not inf") for name in (*RATES, "decay", "warmup")),
    ({"decay": -0.1}, "decay must be at least 0, not -0.1"),
    ({"warmup": -0.1}, "warmup must be a share of the steps from 0 to 1, not -0.1"),
    ({"warmup": 50}, "warmup must be a share of the steps from 0 to 1, not 50"),
    ({"schedule": "steep"}, "schedule must be one of constant, linear, cosine, not 'steep'"),
    ({"precision": "int8"}, "precision must be one of fp32, bf16, fp16, not 'int8'"),
]


@pytest.mark.parametrize(("given", "sentence"), BAD, ids=[sentence for _, sentence in BAD])
def test_a_bad_value_is_refused_in_a_sentence(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DataError) as raised:
        TrainOptions(**given)
    assert str(raised.value) == sentence


def test_optional_values_may_be_none() -> None:
    assert TrainOptions(steps=None, lora=None, precision=None) == TrainOptions()
    TrainOptions(decay=0.0, warmup=0.0)
    TrainOptions(warmup=1.0)


def rates(schedule: str, steps: int = 100, warmup: float = 0.1) -> list[float]:
    options = TrainOptions(schedule=schedule, warmup=warmup)
    return [options.rate_at(step, steps) for step in range(steps)]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_warmup_rises_linearly_to_the_full_rate(schedule: str) -> None:
    assert rates(schedule)[:10] == pytest.approx([share / 10 for share in range(1, 11)])
    assert rates(schedule)[10] == 1


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_without_warmup_the_first_step_has_the_full_rate(schedule: str) -> None:
    assert rates(schedule, warmup=0.0)[0] == 1
    assert rates(schedule, steps=4, warmup=0.1)[0] == 1  # less than a step


def test_linear_falls_towards_zero_and_never_reaches_it() -> None:
    after = rates("linear")[10:]
    assert after == pytest.approx([1 - step / 90 for step in range(90)])
    assert 0 < after[-1] < 0.02


def test_cosine_falls_slowly_then_fast_then_slowly() -> None:
    after = rates("cosine")[10:]
    assert after[45] == pytest.approx(0.5)
    assert after == sorted(after, reverse=True)
    assert 1 - after[9] < 0.03 < after[40] - after[50]
    assert 0 < after[-1] < 0.001


def test_constant_stays() -> None:
    assert set(rates("constant")[10:]) == {1.0}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("warmup", [0.0, 0.5, 1.0])
def test_short_runs_learn_at_every_step(schedule: str, steps: int, warmup: float) -> None:
    assert all(0 < rate <= 1 for rate in rates(schedule, steps, warmup))
