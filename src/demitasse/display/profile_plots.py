"""A picture of a profile: quality against latency with the front, and the quality of every cut. Needs `plots`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import log
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from demitasse.display.charts import (
    COLOURS,
    Point,
    handle,
    heat_map,
    model_line,
    picture_kind,
    quality_and_time,
    save_picture,
)
from demitasse.display.profile_page import comparison_series
from demitasse.planning.profile import MeasuredCut, Profile

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The share of the chart's width and height that a name takes up; closer than both, two names would touch.
_NAME_WIDTH, _NAME_HEIGHT = 0.09, 0.045
_MARKERS = {"fp32": "o", "fp16": "^", "bf16": "v", "int8": "s"}


def plot_profile(profile: Profile, path: str | Path, *, compare: Sequence[Profile] = ()) -> None:
    """Draw a profile to a .png, .svg or .pdf: quality against latency, then every cut at each precision.

    >>> import demitasse as dt
    >>> from demitasse.planning.profile import MeasuredCut, Timing
    >>> measured = MeasuredCut(dt.Cut(3, 32), "int8", "float32", 71.5, Timing(0.4, 0.6, 2500.0, 0.02), 1.5, 128)
    >>> plot_profile(dt.Profile("tiny", "5f0c", "Spearman", 1.2, 32, (measured,)), out.with_suffix(".svg"))
    """
    path = Path(path)
    picture_kind(path)
    save_picture(path, lambda: _figure(profile, compare))


def _figure(profile: Profile, compare: Sequence[Profile]) -> Figure:
    from matplotlib.figure import Figure

    precisions = list(dict.fromkeys(measured.precision for measured in profile.rows))
    layers = len({measured.cut.layers for measured in profile.rows})
    widths = [1.35, *[1.0] * len(precisions)]
    figure = Figure(figsize=(4.4 * sum(widths), max(3.9, 1.2 + 0.22 * layers)), layout="constrained")
    first, *maps = figure.subplots(1, len(widths), width_ratios=widths)
    _quality_and_latency(first, profile, compare)
    for axes, precision in zip(maps, precisions, strict=True):
        _every_cut(axes, profile, precision)
    figure.suptitle(f"{PurePath(profile.model).name} ({profile.full.cut}): {profile.measure} ×100")
    return figure


def _quality_and_latency(axes: Axes, profile: Profile, compare: Sequence[Profile]) -> None:
    """Every row as a dot, the front as a staircase: between two of its rows, the faster one is all there is."""
    named = [("the front", profile.front("quality", "latency"))]
    named += [(PurePath(one.name).name, tuple(one.rows)) for one in comparison_series(profile, compare)]
    everything = [*profile.rows, *chain.from_iterable(series for _, series in named)]
    lines = [model_line(name, _points(series, everything), index) for index, (name, series) in enumerate(named)]
    quality_and_time(axes, lines, "p95 latency of one text, ms")
    for drawn in axes.lines:
        drawn.set_drawstyle("steps-post")
    handles: list[Artist] = [handle(line) for line in lines]
    labels = [line.label for line in lines]
    for precision in dict.fromkeys(measured.precision for measured in profile.rows):
        same = [measured for measured in profile.rows if measured.precision == precision]
        x, y = [measured.timing.p95_ms for measured in same], [measured.quality for measured in same]
        dots = axes.scatter(x, y, 9, COLOURS[0], marker=_MARKERS[precision], alpha=0.3, linewidths=0, zorder=1)
        handles.append(dots)
        labels.append(f"all rows, {precision}")
    axes.legend(handles, labels, loc="lower right")
    axes.set(title="quality and latency of each cut", ylabel="quality")


def _points(series: Sequence[MeasuredCut], everything: Sequence[MeasuredCut]) -> list[Point]:
    """The cuts as points, fastest first; where names would touch, only the best one is named."""
    times, qualities = zip(*((measured.timing.p95_ms, measured.quality) for measured in everything), strict=True)
    wide = _NAME_WIDTH * log(max(times) / min(times))
    high = _NAME_HEIGHT * (max(qualities) - min(qualities))
    points: list[Point] = []
    for measured in sorted(series, key=lambda measured: -measured.timing.p95_ms):
        x, y = measured.timing.p95_ms, measured.quality
        crowded = any(point.name and log(point.x / x) < wide and abs(point.y - y) < high for point in points)
        points.append(Point(x, y, name="" if crowded else str(measured.cut)))
    return points[::-1]


def _every_cut(axes: Axes, profile: Profile, precision: str) -> None:
    finest = profile.full.vectors
    shown = [measured for measured in profile.rows if (measured.precision, measured.vectors) == (precision, finest)]
    heat_map(axes, {(measured.cut.layers, measured.cut.dims): measured.quality for measured in shown})
    axes.set(title=f"{precision}, {finest} vectors: quality", xlabel="dims", ylabel="layers")
