from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import made_profile, profiles, rows

from demitasse import Cut, DataError
from demitasse.planning.profile import AXES, MeasuredCut, Profile, Timing, dominates

TIMING = Timing(0.8, 1.0, 900.0, 0.02)
ROW = MeasuredCut(Cut(3, 32), "int8", "float32", 75.0, TIMING, 9.0, 128)


@given(profiles(), st.sets(st.sampled_from(AXES)).map(sorted))
def test_the_front_is_the_rows_that_no_other_beats(profile: Profile, axes: list[str]) -> None:
    slow = {row for row in profile.rows if not any(dominates(other, row, axes or AXES) for other in profile.rows)}
    front = profile.front(*axes)
    assert set(front) == slow
    assert len(front) == len(slow) > 0
    assert [row.timing.p95_ms for row in front] == sorted(row.timing.p95_ms for row in front)


@given(rows(), rows(), rows())
def test_to_beat_is_a_strict_order(first: MeasuredCut, second: MeasuredCut, third: MeasuredCut) -> None:
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
    assert dominates(dataclasses.replace(ROW, **better), ROW)  # type: ignore[arg-type]
    assert not dominates(ROW, dataclasses.replace(ROW, **better))  # type: ignore[arg-type]


def test_p50_and_noise_are_no_axes() -> None:
    other = dataclasses.replace(ROW, timing=dataclasses.replace(TIMING, p50_ms=0.1, noise=0.0))
    assert not dominates(other, ROW)


def test_the_full_row_is_the_finest_of_the_largest_cut() -> None:
    profile = made_profile()
    assert (profile.full.cut, profile.full.precision, profile.full.vectors) == (Cut(3, 128), "fp32", "float32")
    assert made_profile(precisions=("int8",)).full.precision == "int8"
    assert profile.share(profile.full) == 1
    assert profile.share(profile.rows[0]) == profile.rows[0].quality / profile.full.quality


def test_rows_are_selected_by_what_they_have() -> None:
    profile = made_profile()
    assert profile.select() == profile.rows
    chosen = profile.select([Cut(1, 32), Cut(3, 128)], ["int8"], ["binary", "int8"])
    assert [str(row) for row in chosen] == [
        *("1x32 int8, int8 vectors", "1x32 int8, binary vectors"),
        *("3x128 int8, int8 vectors", "3x128 int8, binary vectors"),
    ]


@pytest.mark.parametrize(
    ("selection", "said"),
    [
        ({"cuts": [Cut(9, 9)]}, "no cut 9x9 was measured in this profile; there is 1x32, 1x128, 2x32"),
        ({"precisions": ["fp16"]}, "no precision fp16 was measured in this profile; there is fp32, int8"),
        ({"vectors": ["int4"]}, "no way of keeping vectors int4 was measured"),
    ],
)
def test_what_was_not_measured_cannot_be_selected(selection: dict[str, list[object]], said: str) -> None:
    with pytest.raises(DataError, match=said):
        made_profile().select(**selection)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"precision": "int4"}, "precision is one of fp32, fp16, bf16, int8, not 'int4'"),
        ({"vectors": "bits"}, "vectors is one of float32, float16, int8, binary, not 'bits'"),
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
def test_a_row_that_cannot_be_is_refused(change: dict[str, object], said: str) -> None:
    with pytest.raises(DataError, match=said):
        dataclasses.replace(ROW, **change)  # type: ignore[arg-type]


def test_a_profile_needs_rows_and_each_once() -> None:
    with pytest.raises(DataError, match="has no rows; measure at least one cut"):
        Profile("tiny", "", "Spearman", 0.0, 32, ())
    with pytest.raises(DataError, match="has 3x32 int8, float32 vectors twice"):
        Profile("tiny", "", "Spearman", 0.0, 32, (ROW, dataclasses.replace(ROW, quality=1.0)))


def test_nothing_is_a_share_of_nothing() -> None:
    profile = Profile("tiny", "", "Spearman", 0.0, 32, (dataclasses.replace(ROW, quality=-3.0),))
    with pytest.raises(DataError, match="quality is -3, of which nothing is a share"):
        profile.share(profile.full)


def test_there_are_five_axes() -> None:
    assert sorted(AXES) == sorted(("quality", "latency", "speed", "vectors", "model"))
    with pytest.raises(DataError, match="no axis 'beauty'; there is quality"):
        ROW.cost("beauty")
