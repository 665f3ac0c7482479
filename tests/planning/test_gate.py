from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import budgets, made_profile, profiles

from demitasse import Budget, Cut, DataError
from demitasse.planning.gate import Gate
from demitasse.planning.profile import Profile

NEW, OLD = made_profile(slower=1.3, worse=1.0), made_profile()


@given(profiles(), budgets())
def test_there_is_one_failure_for_each_limit_exceeded(profile: Profile, budget: Budget) -> None:
    if not budget.limits:
        return
    failures = Gate(budget).failures(profile, profile.rows)
    for measured in profile.rows:
        broken = budget.broken(measured, profile.full.quality)
        assert len([failure for failure in failures if failure.measured is measured]) == len(broken)


@given(profiles(), st.floats(0, 1))
def test_a_drop_is_from_the_full_model(profile: Profile, most: float) -> None:
    failed = {failure.measured for failure in Gate(Budget(), max_drop=most).failures(profile, profile.rows)}
    assert failed == {one for one in profile.rows if 1 - one.quality / profile.full.quality > most}
    assert profile.full not in failed


def test_a_limit_is_exceeded_however_noisy_the_timing() -> None:
    noisy = [replace(one, timing=replace(one.timing, noise=10.0)) for one in NEW.select([Cut(3, 128)], ["fp32"])]
    failures = Gate(Budget(latency_ms=3.899)).failures(NEW, noisy)
    assert [(failure.value, failure.allowed) for failure in failures] == [("p95 3.900 ms", "at most 3.899")] * 4


def test_a_drop_from_a_baseline_is_cut_by_cut() -> None:
    checked = NEW.select([Cut(3, 128)])
    assert Gate(Budget(), max_drop=0.013, baseline=OLD).failures(NEW, checked) == []
    failures = Gate(Budget(), max_drop=0.012, baseline=OLD).failures(NEW, checked)
    # 1 of 80, 79.5, 79, 78.5 in fp32, and of a point less in int8
    assert failures[0].value == "quality 1.25% below the baseline"
    assert failures[0].allowed == "at most 1.2%"
    assert len(failures) == 8
    assert Gate(Budget(), max_drop=0.0, baseline=NEW).failures(NEW, NEW.rows) == []


def test_slower_counts_beyond_the_noise_of_both() -> None:
    checked = NEW.select([Cut(1, 32)], ["int8"], ["float32"])
    failures = Gate(Budget(), max_slowdown=0.25, baseline=OLD).failures(NEW, checked)
    assert [failure.value for failure in failures] == [
        *("p95 30.0% slower than the baseline", "batches 30.0% slower than the baseline"),
    ]
    assert failures[0].allowed == "at most 25%, plus 4.0% noise"
    assert Gate(Budget(), max_slowdown=0.27, baseline=OLD).failures(NEW, checked) == []
    assert Gate(Budget(), max_slowdown=0.0, baseline=NEW).failures(OLD, checked) == []


def test_what_cannot_be_compared_is_refused() -> None:
    gate = Gate(Budget(), max_drop=0.01, baseline=OLD)
    with pytest.raises(DataError, match=r"'nDCG@10' in the profile and 'Spearman, .*; measure both"):
        gate.failures(replace(NEW, measure="nDCG@10"), NEW.rows)
    fewer = replace(OLD, rows=OLD.select(precisions=["fp32"]))
    with pytest.raises(DataError, match="the baseline lacks 1x32 int8, float32 vectors; measure both at the same cuts"):
        replace(gate, baseline=fewer).failures(NEW, NEW.rows)
    assert replace(gate, baseline=fewer).failures(OLD, OLD.select(precisions=["fp32"])) == []
    with pytest.raises(DataError, match="the profile lacks 1x32 int8, float32 vectors of the baseline"):
        gate.failures(fewer, fewer.rows)


def test_a_gate_must_check_something() -> None:
    with pytest.raises(DataError, match=r"nothing to check; give a limit, such as --max-drop 1%"):
        Gate(Budget())
    with pytest.raises(DataError, match=r"--max-slowdown needs an earlier profile .* --baseline old.json"):
        Gate(Budget(), max_slowdown=0.1)
    worthless = replace(OLD, rows=tuple(replace(one, quality=0.0) for one in OLD.rows))
    with pytest.raises(DataError, match=r"quality of 3x128 fp32, float32 vectors is 0, .* --min-quality"):
        Gate(Budget(), max_drop=0.01).failures(worthless, worthless.rows)


def test_other_machines_are_noticed_if_times_are_compared() -> None:
    elsewhere = replace(OLD, made={"machine": {"processor": "Another"}})
    assert Gate(Budget(), max_slowdown=0.1, baseline=elsewhere).elsewhere(NEW)
    assert not Gate(Budget(), max_slowdown=0.1, baseline=OLD).elsewhere(NEW)
    assert not Gate(Budget(), max_drop=0.1, baseline=elsewhere).elsewhere(NEW)
    assert not Gate(Budget(latency_ms=1)).elsewhere(NEW)
