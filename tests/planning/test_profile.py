from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import made_profile, measured_cuts, profiles

from demitasse import Cut, DataError
from demitasse.planning.profile import AXES, MeasuredCut, Profile, Timing, dominates

TIMING = Timing(0.8, 1.0, 900.0, 0.02)
MEASURED = MeasuredCut(Cut(3, 32), "int8", "float32", 75.0, TIMING, 9.0, 128)


@given(profiles(), st.sets(st.sampled_from(AXES)).map(sorted))
def test_the_front_is_what_nothing_dominates(profile: Profile, axes: list[str]) -> None:
    expected = {one for one in profile.rows if not any(dominates(other, one, axes or AXES) for other in profile.rows)}
    front = profile.front(*axes)
    assert set(front) == expected
    assert len(front) == len(expected) > 0
    assert [one.timing.p95_ms for one in front] == sorted(one.timing.p95_ms for one in front)


@given(measured_cuts(), measured_cuts(), measured_cuts())
def test_domination_is_a_strict_order(first: MeasuredCut, second: MeasuredCut, third: MeasuredCut) -> None:
    assert not dominates(first, first)
    assert not (dominates(first, second) and dominates(second, first))
    if dominates(first, second) and dominates(second, third):
        assert dominates(first, third)


@pytest.mark.parametrize(
    "better",
    [
        {"quality": 76.0},
        {"timing": dataclasses.replace(TIMING, p95_ms=0.9)},
        {"timing": dataclasses.replace(TIMING, texts_per_second=901.0)},
        {"model_mb": 8.0},
        {"vector_bytes": 64},
    ],
    ids=["quality", "latency", "speed", "model", "vectors"],
)
def test_every_axis_counts(better: dict[str, object]) -> None:
    assert dominates(dataclasses.replace(MEASURED, **better), MEASURED)  # type: ignore[arg-type]
    assert not dominates(MEASURED, dataclasses.replace(MEASURED, **better))  # type: ignore[arg-type]


def test_p50_and_noise_are_not_axes() -> None:
    other = dataclasses.replace(MEASURED, timing=dataclasses.replace(TIMING, p50_ms=0.1, noise=0.0))
    assert not dominates(other, MEASURED)


def test_full_is_the_finest_of_the_largest_cut() -> None:
    profile = made_profile()
    assert (profile.full.cut, profile.full.precision, profile.full.vectors) == (Cut(3, 128), "fp32", "float32")
    assert made_profile(precisions=("int8",)).full.precision == "int8"
    assert profile.share(profile.full) == 1
    assert profile.share(profile.rows[0]) == profile.rows[0].quality / profile.full.quality


def test_rows_are_selected_by_what_they_have() -> None:
    profile = made_profile()
    assert profile.select() == profile.rows
    chosen = profile.select([Cut(1, 32), Cut(3, 128)], ["int8"], ["binary", "int8"])
    assert [str(measured) for measured in chosen] == [
        *("1x32 int8, int8 vectors", "1x32 int8, binary vectors"),
        *("3x128 int8, int8 vectors", "3x128 int8, binary vectors"),
    ]


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ({"cuts": [Cut(9, 9)]}, "cut 9x9 was not measured in this profile; choose from 1x32, 1x128, 2x32"),
        ({"precisions": ["fp16"]}, "precision fp16 was not measured in this profile; choose from fp32, int8"),
        ({"vectors": ["int4"]}, "kind of vectors int4 was not measured"),
    ],
)
def test_what_was_not_measured_cannot_be_selected(selection: dict[str, list[object]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        made_profile().select(**selection)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"precision": "int4"}, "precision must be one of fp32, fp16, bf16, int8, not 'int4'"),
        ({"vectors": "bits"}, "vectors must be one of float32, float16, int8, binary, not 'bits'"),
        (
            {"timing": Timing(0.0, 1.0, 900.0, 0.0)},
            "times and sizes of 3x32 int8, float32 vectors must be numbers above",
        ),
        ({"timing": Timing(1.0, float("nan"), 900.0, 0.0)}, "must be numbers above 0"),
        ({"timing": Timing(1.0, 1.0, float("inf"), 0.0)}, "must be numbers above 0"),
        ({"timing": Timing(1.0, 1.0, 900.0, -0.1)}, "its noise at least 0"),
        ({"model_mb": 0.0}, "must be numbers above 0"),
        ({"vector_bytes": -1}, "must be numbers above 0"),
        ({"quality": float("nan")}, "the quality of 3x32 int8, float32 vectors must be a number"),
    ],
)
def test_impossible_numbers_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        dataclasses.replace(MEASURED, **change)  # type: ignore[arg-type]


def test_a_profile_needs_rows_and_each_once() -> None:
    with pytest.raises(DataError, match="has no rows; measure at least one cut"):
        Profile("tiny", "", "Spearman", 0.0, 32, ())
    with pytest.raises(DataError, match="has 3x32 int8, float32 vectors twice"):
        Profile("tiny", "", "Spearman", 0.0, 32, (MEASURED, dataclasses.replace(MEASURED, quality=1.0)))


def test_there_is_no_share_of_a_quality_below_zero() -> None:
    profile = Profile("tiny", "", "Spearman", 0.0, 32, (dataclasses.replace(MEASURED, quality=-3.0),))
    with pytest.raises(DataError, match="quality is -3, so no share of it can be taken"):
        profile.share(profile.full)


def test_there_are_five_axes() -> None:
    assert sorted(AXES) == sorted(("quality", "latency", "speed", "vectors", "model"))
    with pytest.raises(DataError, match="no axis 'beauty'; choose one of quality"):
        MEASURED.cost("beauty")
