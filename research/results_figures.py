"""The figures of docs/results.md. Each carries a digest of what it shows, by which results_page.py --check knows
whether it is current, whatever version of matplotlib drew it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from paper_results import HOTPOT, STS, Backbone, Row, few

from demitasse.display.charts import (
    COLOURS,
    STYLE,
    Line,
    Point,
    handle,
    model_line,
    quality_and_time,
    quality_by_dims,
    quality_by_layer,
)
from demitasse.host.atomic import new_file

# Grey and black are what the others are measured by; ESE in its two forms has two colours that are close.
_GREY = {"none": ("0.65", "o"), "fit": ("0.4", "d"), "separate": ("0.0", "x")}
_PLACES = {"elastic": 0, "espresso": 1, "espresso-released": 4, "matryoshka": 2, "2dmse": 3, "starbucks": 5}
_WIDTH, _HEIGHT = 3.7, 3.3  # of a panel, in inches


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    metric: str
    draw: Callable[..., None]
    lines: Sequence[Line]


@dataclass(frozen=True)
class Picture:
    """A figure before it is drawn."""

    name: str
    about: str  # for those who do not see it
    panels: Sequence[Panel]

    @property
    def digest(self) -> str:
        shown = [
            [panel.title, panel.metric, panel.draw.__name__, [asdict(line) for line in panel.lines]]
            for panel in self.panels
        ]
        return hashlib.sha256(json.dumps([self.name, shown]).encode()).hexdigest()

    def current(self, folder: Path) -> bool:
        """Whether the file in `folder` shows this."""
        path = folder / f"{self.name}.svg"
        return path.is_file() and self.digest in path.read_text(encoding="utf-8")

    def save(self, path: Path) -> None:
        """Draw to `path`, an .svg or a .png."""
        kind = path.suffix[1:]
        metadata = {"Date": None, "Description": f"shows {self.digest}"} if kind == "svg" else {}
        with matplotlib.rc_context(STYLE), new_file(path) as file:
            _figure(self).savefig(file, format=kind, dpi=150, metadata=metadata)


def _figure(picture: Picture) -> Figure:
    panels = picture.panels
    layout = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06, wspace=0.02)
    figure = Figure(figsize=(_WIDTH * len(panels) + 0.4, _HEIGHT + 0.6), layout=layout)
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        panel.draw(axes, panel.lines)
        axes.set(title=panel.title, ylabel=panel.metric)
    most = sorted(panels, key=lambda panel: -len(panel.lines))  # it has them in the order of the tables
    named = {line.label: line for panel in most for line in panel.lines}
    handles = [handle(line) for line in named.values()]
    rows = math.ceil(len(named) / (3 * len(panels)))
    figure.legend(handles, list(named), loc="outside lower center", ncols=math.ceil(len(named) / rows))
    return figure


def lines_of(model: Backbone, table: str, places: Sequence[tuple[float, str]]) -> list[Line]:
    """A line for every row that was measured at one of `places`, each an x and a cut; in every figure alike."""
    seen: dict[str, int] = {}
    lines = []
    for row in model.rows:
        again = seen[row.method] = seen.get(row.method, -1) + 1
        found = points_of(row, table, places)
        if not found:
            continue
        if row.method in _GREY and not again:
            lines.append(Line(row.label, found, *_GREY[row.method]))
        else:
            place = _PLACES.get(row.method, len(_PLACES) + list(seen).index(row.method))
            lines.append(model_line(row.label, found, place + len(COLOURS) * again))  # the same colour, another marker
    return lines


def points_of(row: Row, table: str, places: Iterable[tuple[float, str]]) -> list[Point]:
    """Those of `places` that were measured, with a band where seeds differ."""
    points = []
    for x, cut in places:
        cell = row.cell(table, [cut])
        if cell:
            band = (cell.mean - cell.spread, cell.mean + cell.spread) if cell.spread else (None, None)
            points.append(Point(x, cell.mean, *band))
    return points


def by_layer(model: Backbone) -> Picture:
    """The ESE paper's Figure 3."""
    panels = []
    for dims in sorted({*(width for width in (32, 128) if width in model.widths), model.dims}):
        places = [(count, f"{count}x{dims}") for count in range(model.layers + 1)]
        lines = lines_of(model, STS, places)
        panels.append(Panel(f"{dims} dims", "STS, Spearman × 100", quality_by_layer, lines))
    about = f"{model.title}: Spearman on the seven STS tests by number of layers, one line for each method"
    return Picture(f"{model.name}-layers", about, panels)


def over_time(axes: Axes, lines: Sequence[Line]) -> None:
    """Quality over time on an even scale: each layer adds about as much."""
    quality_and_time(axes, lines)
    axes.set_xscale("linear")
    axes.set_xlim(left=0)


def by_time(model: Backbone, seconds: dict[str, Any]) -> Picture:
    """The ESE paper's Figure 4."""
    times = {int(layers): value for layers, value in seconds["milliseconds_a_text"].items()}
    panels = []
    for dims in sorted({*(width for width in (128,) if width in model.widths), model.dims}):
        places = [(times[count], f"{count}x{dims}") for count in sorted(times)]
        lines = lines_of(model, STS, places)
        panels.append(Panel(f"{dims} dims", "STS, Spearman × 100", over_time, _numbered(lines, times)))
    about = f"{model.title}: Spearman on the seven STS tests by the time a text takes, from no layer to all"
    return Picture(f"{model.name}-time", about, panels)


def _numbered(lines: list[Line], times: dict[int, float]) -> list[Line]:
    """The number of layers beside the points of the last line: the others have theirs above and below."""
    if not lines:
        return lines
    *others, last = lines
    names = {times[count]: str(count) for count in few(times)}
    points = [replace(point, name=names.get(point.x, "")) for point in last.points]
    return [*others, replace(last, points=points)]


def search(model: Backbone) -> Picture:
    """What a store of fewer dims costs a search, at all layers and at half of them."""
    panels = []
    for count in sorted({model.layers // 2, model.layers}, reverse=True):
        places = [(dims, f"{count}x{dims}") for dims in model.widths if dims >= 64]
        lines = lines_of(model, HOTPOT, places)
        panels.append(Panel(f"{count} layers", "hotpotqa-500, nDCG@10 × 100", quality_by_dims, lines))
    about = f"{model.title}: nDCG@10 on hotpotqa-500 by dims, at all layers and at half of them"
    return Picture(f"{model.name}-search", about, panels)
