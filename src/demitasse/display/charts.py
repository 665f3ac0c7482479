"""One panel of a picture, drawn on axes of matplotlib: quality by layers, by dims, over time; tables in colour.

    figure, axes = matplotlib.pyplot.subplots()
    quality_and_time(axes, [model_line("ours", [Point(1.2, 70.5, name="1x384"), Point(5.6, 78.9, name="6x384")], 0)])

Sizes are shaded, larger ones darker; models have a colour and a marker each. Both can be told apart by colour-blind
readers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from demitasse.errors import DataError
from demitasse.extras import need
from demitasse.host.atomic import new_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

# How every picture is set; for matplotlib.rc_context.
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "pdf.fonttype": 42,  # letters stay letters, in the SVG too
    "svg.fonttype": "none",
    "svg.hashsalt": "demitasse",
    "text.parse_math": False,  # a name may hold dollar signs
}
# The colours of Okabe and Ito, but for their yellow, which is too pale on white. With seven colours and six markers it
# takes 43 models for two to have both alike.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "os^Dv*"


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
    colour: Any  # anything that matplotlib takes for one
    marker: str = "o"


def model_line(label: str, points: Sequence[Point], position: int) -> Line:
    """The line of the model at `position` in a list of models: same place, same colour and marker."""
    return Line(label, points, COLOURS[position % len(COLOURS)], _MARKERS[position % len(_MARKERS)])


def size_line(label: str, points: Sequence[Point], share: float) -> Line:
    """The line of a size; `share` is 0 for the smallest of those in the panel and 1 for the largest."""
    from matplotlib import colormaps

    return Line(label, points, colormaps["viridis_r"](0.2 + 0.8 * share))


def quality_by_layer(axes: Axes, lines: Sequence[Line]) -> None:
    """Draw quality over the number of layers, which is a point's x."""
    _draw(axes, lines)
    axes.set_xlabel("layers")
    layers = _places(lines)
    axes.set_xticks(layers[:: 1 + len(layers) // 14])  # of many, every second or third has a number


def quality_by_dims(axes: Axes, lines: Sequence[Line]) -> None:
    """Draw quality over the number of dims, which is a point's x; a step to the right doubles it."""
    _draw(axes, lines)
    dims = _places(lines)
    axes.set_xlabel("dims")
    axes.set_xscale("log", base=2)
    # Numbers closer than 256 and 384 would touch, such as 768 and 1024; the larger one is written.
    near = [larger < 1.4 * number for number, larger in zip(dims, [*dims[1:], np.inf], strict=True)]
    axes.set_xticks(dims, ["" if hidden else f"{number:g}" for number, hidden in zip(dims, near, strict=True)])
    axes.minorticks_off()


def quality_and_time(axes: Axes, lines: Sequence[Line], time: str = "milliseconds a text") -> None:
    """Draw quality over time, which is a point's x, on a logarithmic scale."""
    from matplotlib.ticker import LogLocator

    _draw(axes, lines)
    axes.set_xlabel(time)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    for line in lines:
        for point in line.points:
            place, aside = (point.x, point.y), (4, -9)
            axes.annotate(point.name, place, aside, textcoords="offset points", fontsize=7, color=line.colour)


def heat_map(axes: Axes, values: Mapping[tuple[int, int], float]) -> None:
    """Write the value of each (row, column), the highest row on top, on a ground that is darker the better it is."""
    rows, columns = (sorted({place[axis] for place in values}) for axis in (0, 1))
    table = np.full((len(rows), len(columns)), np.nan)
    for (row, column), value in values.items():
        table[rows.index(row), columns.index(column)] = value
    least, most = np.nanmin(table), np.nanmax(table)
    spread = most - least or 1.0
    # White is left to what was not measured, and the darkest blue to nothing: numbers are hard to read on it.
    ends = {"vmin": least - 0.15 * spread, "vmax": most + 0.15 * spread}
    axes.imshow(table, cmap="Blues", origin="lower", aspect="auto", **ends)
    for (down, across), value in np.ndenumerate(table):
        if not np.isnan(value):
            ink = "white" if value > least + 0.7 * spread else "black"
            axes.text(across, down, f"{value:.1f}", ha="center", va="center", fontsize=8, color=ink)
    axes.set_xticks(range(len(columns)), [str(column) for column in columns])
    axes.set_yticks(range(len(rows)), [str(row) for row in rows])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def legend(axes: Axes, lines: Sequence[Line], title: str) -> None:
    """Name the lines of a panel beside it, in the order in which they end."""
    order = sorted(range(len(lines)), key=lambda place: -lines[place].points[-1].y)
    handles, labels = [axes.lines[place] for place in order], [lines[place].label for place in order]
    axes.legend(handles, labels, title=title, loc="center left", bbox_to_anchor=(1, 0.5))


def handle(line: Line) -> Line2D:
    """What stands for a line in a legend of the whole picture."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color=line.colour, marker=line.marker, markersize=4)


def _draw(axes: Axes, lines: Sequence[Line]) -> None:
    for line in lines:
        x, y = [point.x for point in line.points], [point.y for point in line.points]
        axes.plot(x, y, color=line.colour, marker=line.marker, markersize=4, linewidth=1.5)
        low, high = np.array([(point.low, point.high) for point in line.points], float).reshape(-1, 2).T
        axes.fill_between(x, low, high, color=line.colour, alpha=0.15, linewidth=0)  # None is nan, and not drawn
    axes.grid(axis="y", color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)


def _places(lines: Sequence[Line]) -> list[float]:
    return sorted({point.x for line in lines for point in line.points})


# The kinds of file, each with the fact that would make it another file tomorrow.
_KINDS: dict[str, dict[str, None]] = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


def picture_kind(path: Path) -> str:
    """The kind of picture that `path` is to be, such as ".png", if it can be drawn here."""
    kind = path.suffix.lower()
    if kind not in _KINDS:
        raise DataError(f"{path.name!r} does not say what kind of picture it is; end it with {', '.join(_KINDS)}")
    need("drawing a picture", {"matplotlib": "plots"})
    return kind


def save_picture(path: Path, drawn: Callable[[], Figure]) -> None:
    """Draw to a file, in the style of all pictures here."""
    kind = picture_kind(path)
    import matplotlib

    with matplotlib.rc_context(STYLE), new_file(path) as file:
        drawn().savefig(file, format=kind[1:], dpi=200, metadata=_KINDS[kind])
