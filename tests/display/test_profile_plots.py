"""The picture of a profile."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.axes import Axes
from profiles import made_profile

from demitasse.cut import Cut
from demitasse.display import profile_plots
from demitasse.display.profile_plots import plot_profile
from demitasse.errors import DataError
from demitasse.planning.profile import MeasuredCut, Profile, Timing


def drawn(profile: Profile, *compare: Profile) -> list[Axes]:
    return list(profile_plots._figure(profile, compare).axes)


def test_the_front_is_a_staircase_over_all_dots() -> None:
    profile = made_profile()
    panel = drawn(profile)[0]
    (line,) = panel.lines
    front = profile.front("quality", "latency")
    assert list(line.get_xdata()) == [one.timing.p95_ms for one in front]
    assert list(line.get_ydata()) == [one.quality for one in front]
    assert line.get_drawstyle() == "steps-post"
    assert panel.get_xscale() == "log"
    assert [text.get_text() for text in panel.texts] == [str(one.cut) for one in front]
    assert sum(len(dots.get_offsets()) for dots in panel.collections[-2:]) == len(profile.rows)
    legend = panel.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["the front", "all rows, fp32", "all rows, int8"]


def test_names_that_would_touch_are_left_out() -> None:
    first, last = made_profile().rows[0], made_profile().rows[-1]

    def at(measured: MeasuredCut, p95: float, quality: float) -> MeasuredCut:
        return replace(measured, timing=Timing(1.0, p95, 9.0, 0.0), quality=quality)

    corners = [at(first, 0.1, 50.0), at(first, 10.0, 80.0)]
    near, higher, later = (
        [at(first, 1.0, 70.0), at(last, p95, quality)] for p95, quality in ((1.2, 70.5), (1.2, 75.0), (2.0, 70.5))
    )
    both = [str(first.cut), str(last.cut)]
    for series, names in ((near, ["", both[1]]), (higher, both), (later, both)):
        points = profile_plots._points(series[::-1], [*corners, *series])
        assert [point.name for point in points] == names
        assert [point.x for point in points] == [one.timing.p95_ms for one in series]


def test_every_precision_has_its_table() -> None:
    panels = drawn(made_profile())
    assert [panel.get_title() for panel in panels[1:]] == [
        *("fp32, float32 vectors: quality", "int8, float32 vectors: quality"),
    ]
    assert [text.get_text() for text in panels[2].texts] == ["65.5", "67.0", "71.5", "73.0", "77.5", "79.0"]
    assert len(drawn(made_profile(precisions=("int8",)))) == 2


def test_other_models_are_in_the_legend() -> None:
    other = MeasuredCut(Cut(6, 384), "fp32", "float32", 70.0, Timing(8.0, 12.0, 300.0, 0.03), 90.0, 1536, "org/other")
    panel = drawn(replace(made_profile(), others=(other,)), replace(made_profile(worse=1), model="runs/two"))[0]
    legend = panel.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()][:3] == ["the front", "other", "two"]
    assert [list(line.get_xdata()) for line in panel.lines][1] == [12.0]


@pytest.mark.parametrize(("suffix", "start"), [(".png", b"\x89PNG"), (".svg", b"<?xml")])
def test_a_picture_is_the_same_file_every_time(suffix: str, start: bytes, tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}{suffix}" for name in ("one", "two")]
    for path in paths:
        plot_profile(made_profile(), path)
    assert paths[0].read_bytes().startswith(start)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"'front.gif' is not the name of a picture; use one that ends in .png"):
        plot_profile(made_profile(), tmp_path / "front.gif")
