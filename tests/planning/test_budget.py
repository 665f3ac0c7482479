from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from profiles import budgets, made_profile, profiles

from demitasse import Budget, Cut, DataError, NothingFits
from demitasse.planning.budget import COSTS, as_fast, choose, neighbours
from demitasse.planning.profile import AXES, MeasuredCut, Profile, Timing, dominates

PROFILE = made_profile()


def fits(measured: MeasuredCut, budget: Budget, full: float) -> bool:
    """Whether a cut is within a budget, written out independently."""
    least = None if budget.quality is None else budget.quality * (full if budget.quality <= 1 else 1)
    return (
        (budget.latency_ms is None or measured.timing.p95_ms <= budget.latency_ms)
        and (budget.texts_per_second is None or measured.timing.texts_per_second >= budget.texts_per_second)
        and (budget.vector_bytes is None or measured.vector_bytes <= budget.vector_bytes)
        and (budget.model_mb is None or measured.model_mb <= budget.model_mb)
        and (least is None or measured.quality >= least)
    )


def choice(profile: Profile, budget: Budget) -> MeasuredCut | NothingFits:
    try:
        return profile.best(budget)
    except NothingFits as nothing:
        return nothing


@given(profiles(), budgets())
def test_the_best_is_within_budget_and_nothing_dominates_it(profile: Profile, budget: Budget) -> None:
    fitting = [measured for measured in profile.rows if fits(measured, budget, profile.full.quality)]
    best = choice(profile, budget)
    if isinstance(best, NothingFits):
        assert not fitting
        assert best.limits
        assert best.nearest in profile.rows
        return
    assert best in fitting
    assert not any(dominates(measured, best) for measured in profile.rows)
    assert best in profile.front()
    least = min(fitting, key=lambda measured: measured.cost(budget.preferred))
    if budget.preferred == "latency":  # a difference smaller than the noise is none
        noise = max(best.timing.noise, least.timing.noise)
        assert best.timing.p95_ms <= least.timing.p95_ms * (1 + noise)
    else:
        assert best.cost(budget.preferred) == least.cost(budget.preferred)


@given(profiles(), budgets())
def test_if_nothing_fits_the_fewest_limits_bind_and_the_nearest_is_within_the_others(
    profile: Profile, budget: Budget
) -> None:
    full, nothing = profile.full.quality, choice(profile, budget)
    if not isinstance(nothing, NothingFits):
        return
    without = replace(budget, **dict.fromkeys(nothing.limits))
    assert fits(nothing.nearest, without, full)
    for limit in nothing.limits:  # each of them is in the way by itself
        assert not fits(nothing.nearest, Budget(**{limit: getattr(budget, limit)}), full)
    for measured in profile.rows:
        broken = budget.broken(measured, full)
        assert len(broken) >= len(nothing.limits)
        if len(broken) == len(nothing.limits):
            far, near = (
                sum(budget.excess(one, limit, full) for limit in budget.limits) for one in (measured, nothing.nearest)
            )
            assert far >= near


@given(profiles(), budgets())
def test_the_limit_that_the_message_suggests_is_enough(profile: Profile, budget: Budget) -> None:
    nothing = choice(profile, budget)
    if isinstance(nothing, NothingFits) and nothing.limits == ("latency_ms",):
        suggested = str(nothing).rpartition("allow p95 latency of at most ")[2].removesuffix(" ms")
        assert profile.best(replace(budget, latency_ms=float(suggested)))


@given(profiles(), budgets())
def test_neighbours_are_cheaper_and_better(profile: Profile, budget: Budget) -> None:
    full, best = profile.full.quality, choice(profile, budget)
    if isinstance(best, NothingFits):
        return
    cheaper, better = neighbours(profile.rows, budget, best, full)
    if better is not None:
        assert better.quality > best.quality
        assert not fits(better, budget, full) or budget.preferred != "quality"
    if cheaper is not None:
        assert any(cheaper.cost(axis) < best.cost(axis) for axis in AXES if axis != "quality")
        assert not dominates(cheaper, best)


def busy(noise: float = 0.2, **p50_and_p95: tuple[float, float]) -> Profile:
    """A profile measured on a busy machine: p50 and p95 of each cut; all are good enough."""
    rows = []
    for name, (p50, p95) in p50_and_p95.items():
        cut, timing = Cut.parse(name.removeprefix("_")), Timing(p50, p95, 1000 / p50, noise)
        rows.append(MeasuredCut(cut, "int8", "float32", 80 + cut.layers, timing, 10 + cut.layers, 4 * cut.dims))
    return Profile("tiny", "5f0c", "Spearman", 1.0, 32, tuple(rows))


@pytest.mark.parametrize(
    ("profile", "chosen", "why"),
    [
        (busy(_3x128=(1.8, 10.3), _5x64=(3.0, 10.0), _6x384=(3.4, 13.0)), "3x128", "p50 is lower by far"),
        (busy(_3x128=(1.8, 10.3), _5x64=(1.7, 10.0), _6x384=(3.4, 13.0)), "3x128", "p50 ties, too: fewer layers"),
        (busy(_3x128=(1.8, 10.3), _3x64=(1.8, 10.3), _6x384=(3.4, 13.0)), "3x64", "the same time: smaller vectors"),
        (busy(_3x128=(1.8, 12.5), _5x64=(3.0, 10.0), _6x384=(3.4, 13.0)), "5x64", "p95 is lower beyond the noise"),
        (busy(0.01, _3x128=(1.8, 10.3), _5x64=(3.0, 10.0), _6x384=(3.4, 13.0)), "5x64", "3% is no noise here"),
    ],
)
def test_differences_within_the_noise_do_not_decide(profile: Profile, chosen: str, why: str) -> None:
    assert str(profile.best(Budget(quality=0.5)).cut) == chosen, why
    assert str(profile.best(Budget(prefer="latency")).cut) == chosen, why


def test_other_depths_as_fast_within_the_noise_are_named() -> None:
    profile, budget = busy(_3x128=(1.8, 10.3), _5x64=(3.0, 10.0), _6x384=(3.4, 13.0)), Budget(quality=0.5)
    best = profile.best(budget)
    assert [str(one.cut) for one in as_fast(profile.rows, budget, best, profile.full.quality)] == ["5x64"]
    cheaper, _ = neighbours(profile.rows, budget, best, profile.full.quality)
    assert cheaper is None  # 5x64 has a p95 that is lower by less than the noise
    quick = Budget(latency_ms=20)
    assert as_fast(profile.rows, quick, profile.best(quick), profile.full.quality) == []  # quality decided


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        (Budget(latency_ms=1.5), "3x128 int8, float32 vectors"),
        (Budget(latency_ms=1.0), "2x128 int8, float32 vectors"),
        (Budget(latency_ms=1.0, prefer="latency"), "1x32 int8, binary vectors"),
        (Budget(quality=0.97), "3x128 int8, int8 vectors"),
        (Budget(quality=0.95), "3x32 int8, binary vectors"),
        (Budget(quality=1), "3x128 fp32, float32 vectors"),
        (Budget(quality=79), "3x128 int8, float32 vectors"),
        (Budget(vector_bytes=16), "3x128 fp32, binary vectors"),
        (Budget(vector_bytes=16, model_mb=10), "3x128 int8, binary vectors"),
        (Budget(vector_bytes=4, latency_ms=2), "3x32 int8, binary vectors"),
        (Budget(texts_per_second=999), "2x128 int8, float32 vectors"),
        (Budget(prefer="model"), "1x32 int8, binary vectors"),
        (Budget(prefer="quality"), "3x128 fp32, float32 vectors"),
        (Budget(prefer="vectors", quality=75), "3x32 int8, binary vectors"),
    ],
    ids=str,
)
def test_what_is_chosen(budget: Budget, expected: str) -> None:
    assert str(PROFILE.best(budget)) == expected


def test_the_choice_can_be_narrowed() -> None:
    among = PROFILE.select(vectors=["float32"], precisions=["fp32"])
    assert str(PROFILE.best(Budget(latency_ms=1.5), among)) == "1x128 fp32, float32 vectors"
    with pytest.raises(DataError, match="no rows to choose from"):
        PROFILE.best(Budget(latency_ms=1.5), ())
    # A share is still of the full model, even if that is not among the candidates.
    assert PROFILE.best(Budget(quality=0.9), among).quality >= 0.9 * PROFILE.full.quality


def test_the_message_names_the_limit_the_nearest_and_what_would_be_enough() -> None:
    with pytest.raises(NothingFits) as raised:
        PROFILE.best(Budget(latency_ms=0.1, vector_bytes=512, quality=0.97))
    assert raised.value.limits == ("latency_ms",)
    assert raised.value.nearest.cut == Cut(3, 128)
    message = str(raised.value)
    assert "p95 latency of at most 0.1 ms within the other limits" in message
    assert "3x128 int8, float32 vectors (quality 79.0, p95 1.50 ms, 667 texts/s, 512 bytes" in message
    assert message.endswith("allow p95 latency of at most 1.5 ms")
    with pytest.raises(NothingFits, match=r"at least 99% of the full quality within .*; allow at least 98.7% of the"):
        PROFILE.best(Budget(latency_ms=1.5, quality=0.99))
    with pytest.raises(NothingFits, match=r"nothing measured has a quality of at least 99; .*; allow .* at least 80$"):
        PROFILE.best(Budget(quality=99))
    with pytest.raises(NothingFits) as raised:
        PROFILE.best(Budget(latency_ms=0.1, model_mb=1, quality=50))
    assert raised.value.limits == ("latency_ms", "model_mb")
    assert "allow p95 latency of at most 0.5 ms and a model of at most 2.5 MB" in str(raised.value)


def test_neighbours_are_the_next_cheaper_and_the_next_better() -> None:
    budget = Budget(latency_ms=1.0)
    best = PROFILE.best(budget)
    cheaper, better = neighbours(PROFILE.rows, budget, best, PROFILE.full.quality)
    assert str(cheaper) == "1x128 int8, float32 vectors"
    assert str(better) == "3x128 int8, float32 vectors"
    tight = Budget(vector_bytes=64, latency_ms=100)
    best = PROFILE.best(tight)
    assert str(best) == "3x128 fp32, binary vectors"
    # Latency is the first limit of the budget; the other one still holds.
    cheaper, better = neighbours(PROFILE.rows, tight, best, PROFILE.full.quality)
    assert cheaper is not None
    assert cheaper.vector_bytes <= 64
    assert better is None
    assert neighbours([best], tight, best, PROFILE.full.quality) == (None, None)


def test_a_share_of_a_full_model_that_scores_zero_is_refused() -> None:
    worthless = [replace(measured, quality=0.0) for measured in PROFILE.rows]
    with pytest.raises(DataError, match=r"quality is 0, .* give the minimum quality in points"):
        choose(worthless, Budget(quality=0.97), 0.0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"latency_ms": 0}, "latency_ms must be a number above 0, not 0"),
        ({"texts_per_second": -1}, "texts_per_second must be a number above 0, not -1"),
        ({"vector_bytes": float("nan")}, "vector_bytes must be a finite number, not nan"),
        ({"model_mb": float("inf")}, "model_mb must be a finite number, not inf"),
        ({"quality": True}, "quality must be a number above 0, not True"),
        ({"quality": "97%"}, "quality must be a number above 0, not '97%'"),
        ({"quality": 101}, "points up to 100, not 101; write 0.97 or 75"),
        ({"prefer": "beauty"}, "prefer must be one of quality, latency, vectors, model, not 'beauty'"),
    ],
)
def test_an_impossible_budget_is_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Budget(**given)  # type: ignore[arg-type]


def test_budgets_in_words() -> None:
    everything = Budget(latency_ms=2.5, texts_per_second=1000, vector_bytes=64, model_mb=10, quality=75, prefer="model")
    assert str(everything) == (
        "p95 latency of at most 2.5 ms, at least 1,000 texts/s, at most 64 bytes per vector, a model of at most 10 MB, "
        "a quality of at least 75, preferring model"
    )
    assert str(Budget()) == "no limits"
    assert str(Budget(quality=1)) == "at least 100% of the full quality"
    assert [Budget(documents=1000, **{cost: 1}).preferred for cost in COSTS] == ["quality"] * 5
    assert Budget().preferred == Budget(quality=75).preferred == "latency"
