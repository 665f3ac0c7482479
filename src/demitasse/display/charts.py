"""Charts drawn with matplotlib: quality by layers, by dims and over time, heat maps; and saving them to files.

    figure, axes = matplotlib.pyplot.subplots()
    quality_and_time(axes, [model_line("ours", [Point(1.2, 70.5, name="1x384"), Point(5.6, 78.9, name="6x384")], 0)])

Larger sizes are darker; each model has its own colour and marker. Colour-blind readers can tell both apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from demitasse.errors import DataError
from demitasse.extras import PLOTS, need
from demitasse.host.atomic import new_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

# The style of every picture, for matplotlib.rc_context.
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "pdf.fonttype": 42,  # text stays text, in SVG too
    "svg.fonttype": "none",
    "svg.hashsalt": "demitasse",
    "text.parse_math": False,  # a name may contain dollar signs
}
# The colours of Okabe and Ito, without their yellow, which is too pale on white. With seven colours and six markers,
# only the 43rd model looks like another.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "os^Dv*"
# The kinds of file, each with the metadata that would make the same picture a different file tomorrow.
_KINDS: dict[str, dict[str, None]] = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


@dataclass(frozen=True)
class Point:
    """One measurement; `low` and `high` are its interval, `name` is written beside it in `quality_and_time`."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    name: str = ""


@dataclass(frozen=True)
class Line:
    """Points that belong together: a model, or the cuts of one size."""

    label: str
    points: Sequence[Point]
    colour: Any  # anything that matplotlib accepts as one
    marker: str = "o"


def picture_kind(path: Path) -> str:
    """The kind of picture that `path` names, such as ".png"; checks that it can be drawn here."""
    kind = path.suffix.lower()
    if kind not in _KINDS:
        raise DataError(f"{path.name!r} is not the name of a picture; use one that ends in {', '.join(_KINDS)}")
    need("drawing a picture", PLOTS)
    return kind


def save_picture(path: Path, draw: Callable[[], Figure]) -> None:
    """Write what `draw` draws to a file, in the style of all pictures here."""
    kind = picture_kind(path)
    import matplotlib

    with matplotlib.rc_context(STYLE), new_file(path) as file:
        draw().savefig(file, format=kind[1:], dpi=200, metadata=_KINDS[kind])


def model_line(label: str, points: Sequence[Point], position: int) -> Line:
    """The line of the model at `position` in a list of models, which decides its colour and marker."""
    return Line(label, points, COLOURS[position % len(COLOURS)], _MARKERS[position % len(_MARKERS)])


def size_line(label: str, points: Sequence[Point], share: float) -> Line:
    """The line of a size; `share` is 0 for the smallest size in the panel and 1 for the largest."""
    from matplotlib import colormaps

    return Line(label, points, colormaps["viridis_r"](0.2 + 0.8 * share))


def quality_by_layer(axes: Axes, lines: Sequence[Line]) -> None:
    """Draw quality over layers (the x of each point)."""
    _draw(axes, lines)
    axes.set_xlabel("layers")
    layers = _x_values(lines)
    axes.set_xticks(layers[:: 1 + len(layers) // 14])  # if there are many, only every second or third is labelled


def quality_by_dims(axes: Axes, lines: Sequence[Line]) -> None:
    """Draw quality over dims (the x of each point), on a base-2 logarithmic scale."""
    _draw(axes, lines)
    dims = _x_values(lines)
    axes.set_xlabel("dims")
    axes.set_xscale("log", base=2)
    # Labels closer together than 256 and 384 would touch, such as 768 and 1024; only the larger one is shown.
    near = [larger < 1.4 * number for number, larger in zip(dims, [*dims[1:], np.inf], strict=True)]
    axes.set_xticks(dims, ["" if hidden else f"{number:g}" for number, hidden in zip(dims, near, strict=True)])
    axes.minorticks_off()


def quality_and_time(axes: Axes, lines: Sequence[Line], time: str = "milliseconds per text") -> None:
    """Draw quality over time (the x of each point), on a logarithmic scale."""
    from matplotlib.ticker import LogLocator

    _draw(axes, lines)
    axes.set_xlabel(time)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    for line in lines:
        for point in line.points:
            axes.annotate(
                point.name, (point.x, point.y), (4, -9), textcoords="offset points", fontsize=7, color=line.colour
            )


def heat_map(axes: Axes, values: Mapping[tuple[int, int], float]) -> None:
    """Draw a table with the value of each (row, column), the highest row on top; higher values are darker."""
    rows, columns = (sorted({key[axis] for key in values}) for axis in (0, 1))
    table = np.full((len(rows), len(columns)), np.nan)
    for (row, column), value in values.items():
        table[rows.index(row), columns.index(column)] = value
    lowest, highest = np.nanmin(table), np.nanmax(table)
    spread = highest - lowest or 1.0
    # White is for what was not measured; the darkest blue is not used, since numbers are hard to read on it.
    limits = {"vmin": lowest - 0.15 * spread, "vmax": highest + 0.15 * spread}
    axes.imshow(table, cmap="Blues", origin="lower", aspect="auto", **limits)
    for (down, across), value in np.ndenumerate(table):
        if not np.isnan(value):
            ink = "white" if value > lowest + 0.7 * spread else "black"
            axes.text(across, down, f"{value:.1f}", ha="center", va="center", fontsize=8, color=ink)
    axes.set_xticks(range(len(columns)), [str(column) for column in columns])
    axes.set_yticks(range(len(rows)), [str(row) for row in rows])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def legend(axes: Axes, lines: Sequence[Line], title: str) -> None:
    """Add a legend beside a panel, in the order in which its lines end."""
    order = sorted(range(len(lines)), key=lambda index: -lines[index].points[-1].y)
    handles, labels = [axes.lines[index] for index in order], [lines[index].label for index in order]
    axes.legend(handles, labels, title=title, loc="center left", bbox_to_anchor=(1, 0.5))


def handle(line: Line) -> Line2D:
    """The legend entry of a line, for a legend of the whole picture."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color=line.colour, marker=line.marker, markersize=4)


def _draw(axes: Axes, lines: Sequence[Line]) -> None:
    for line in lines:
        x, y = [point.x for point in line.points], [point.y for point in line.points]
        axes.plot(x, y, color=line.colour, marker=line.marker, markersize=4, linewidth=1.5)
        low, high = np.array([(point.low, point.high) for point in line.points], float).reshape(-1, 2).T
        # Without an interval, both ends are nan, which is not drawn.
        axes.fill_between(x, low, high, color=line.colour, alpha=0.15, linewidth=0)
    axes.grid(axis="y", color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)


def _x_values(lines: Sequence[Line]) -> list[float]:
    return sorted({point.x for line in lines for point in line.points})
