"""Pictures of evaluations: every cut at a glance, quality by layers and by dims, models compared. Needs `plots`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from demitasse.cut import Cut
from demitasse.display.charts import (
    Line,
    Point,
    handle,
    heat_map,
    legend,
    model_line,
    picture_kind,
    quality_by_dims,
    quality_by_layer,
    save_picture,
    size_line,
)
from demitasse.display.model_names import short_names
from demitasse.errors import DataError
from demitasse.evaluation.evaluation import Evaluation
from demitasse.evaluation.metrics import display_name
from demitasse.evaluation.score_types import Score

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Panel = Callable[["Axes"], None]
Table = dict[Cut, Score]

_WIDTH, _HEIGHT = 4.2, 3.3  # of a panel, in inches
_MAX_LINES = 5
_MAX_MATRICES = 4


def plot_evaluations(evaluations: Sequence[Evaluation], path: str | Path) -> None:
    """Draw evaluations to a .png, .svg or .pdf, one row of panels for each group of tasks.

    One evaluation: every cut in numbers, then quality by layers and by dims, with the 95% interval shaded for the
    smallest and the largest size; or, if documents were cut to several numbers of layers, every combination. Several
    evaluations: one line for each.

    >>> import demitasse as dt
    >>> evaluation = dt.evaluate(encoder, ["sample"], cuts=dt.grid([1, 2, 3], [8, 32]), resamples=100)
    >>> plot_evaluations([evaluation], out.with_suffix(".svg"))
    """
    path = Path(path)
    picture_kind(path)
    if not evaluations:
        raise DataError("there are no evaluations to draw; give at least one")
    save_picture(path, lambda: _figure(evaluations))


def _figure(evaluations: Sequence[Evaluation]) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    groups = dict.fromkeys(group for evaluation in evaluations for group in evaluation.groups)
    names = short_names(evaluations)
    alone = len(evaluations) == 1
    panel_rows = [
        _panels_of_one(evaluations[0], group) if alone else _panels_of_many(evaluations, names, group)
        for group in groups
    ]
    columns = max(map(len, panel_rows))
    # A table of many layers is taller, so that its numbers fit.
    height = max(_HEIGHT, 0.9 + 0.18 * len({cut.layers for cut in evaluations[0].cuts})) if alone else _HEIGHT
    layout = ConstrainedLayoutEngine(wspace=0.04)
    figure = Figure(figsize=(_WIDTH * columns, height * len(panel_rows) + 0.4), layout=layout)
    for axes_row, panels in zip(figure.subplots(len(panel_rows), columns, squeeze=False), panel_rows, strict=True):
        for axes in axes_row[len(panels) :]:
            axes.set_axis_off()
        for axes, panel in zip(axes_row, panels, strict=False):
            panel(axes)
    banded = any(isinstance(panel, _Lines) and panel.banded for panels in panel_rows for panel in panels)
    shading = "shaded: 95% intervals" if banded else ""
    if alone:
        shading += " of the smallest and the largest size" * banded
        figure.suptitle("; ".join(filter(None, [f"{names[0]} ({evaluations[0].full})", shading])))
    else:
        _name_models(figure, names, shading)
    return figure


def _name_models(figure: Figure, names: Sequence[str], title: str) -> None:
    handles = [handle(model_line(name, (), position)) for position, name in enumerate(names)]
    figure.legend(handles, names, loc="outside lower center", ncols=min(len(names), 4), title=title)


@dataclass(frozen=True)
class _Lines:
    """A panel of lines, drawn when it is called with axes."""

    draw: Callable[[Axes, Sequence[Line]], None]
    lines: Sequence[Line]
    title: str
    metric: str
    legend_title: str = ""  # without one there is no legend: models are named below the picture

    @property
    def banded(self) -> bool:
        return any(point.low is not None for line in self.lines for point in line.points)

    def __call__(self, axes: Axes) -> None:
        self.draw(axes, self.lines)
        axes.set(title=self.title, ylabel=self.metric)
        if self.legend_title:
            legend(axes, self.lines, self.legend_title)


def _panels_of_one(evaluation: Evaluation, group: str) -> list[Panel]:
    if len(evaluation.document_layers) > 1:
        shown = _few({cut.dims for cut in evaluation.cuts}, _MAX_MATRICES)
        return [partial(_combinations, evaluation=evaluation, group=group, dims=dims) for dims in shown]
    table, title, metric = _table(evaluation, group), _title([evaluation], group), _metric([evaluation], group)
    depths, widths = {cut.layers for cut in table}, {cut.dims for cut in table}
    panels: list[Panel] = [partial(_every_cut, table=table, title=f"{title}: {metric}")]
    if len(depths) > 1:
        panels.append(
            _Lines(quality_by_layer, _size_lines(widths, partial(_over_layers, table)), title, metric, "dims")
        )
    if len(widths) > 1:
        panels.append(_Lines(quality_by_dims, _size_lines(depths, partial(_over_dims, table)), title, metric, "layers"))
    return panels


def _panels_of_many(evaluations: Sequence[Evaluation], names: Sequence[str], group: str) -> list[Panel]:
    """Quality by layers at all dims, then at the fewest dims that all models were measured at; quality by dims."""
    title, metric = _title(evaluations, group), _metric(evaluations, group)
    tables = {position: table for position, one in enumerate(evaluations) if (table := _table(one, group))}
    widths = [{cut.dims for cut in table} for table in tables.values()]

    def lines(points: Callable[[Table], list[Point]]) -> list[Line]:
        return [model_line(names[position], points(table), position) for position, table in tables.items()]

    widest = lines(lambda table: _over_layers(table, max(cut.dims for cut in table)))
    panels: list[Panel] = [_Lines(quality_by_layer, widest, f"{title}, all dims", metric)]
    fewest = min(set.intersection(*widths), default=0)
    if fewest and any(fewest < max(dims) for dims in widths):
        narrow = lines(lambda table: _over_layers(table, fewest))
        panels.append(_Lines(quality_by_layer, narrow, f"{title}, {fewest} dims", metric))
    if any(len(dims) > 1 for dims in widths):
        deepest = lines(lambda table: _over_dims(table, max(cut.layers for cut in table)))
        panels.append(_Lines(quality_by_dims, deepest, f"{title}, all layers", metric))
    return panels


def _every_cut(axes: Axes, table: Table, title: str) -> None:
    heat_map(axes, {(cut.layers, cut.dims): score.value for cut, score in table.items()})
    axes.set(title=title, xlabel="dims", ylabel="layers")


def _combinations(axes: Axes, evaluation: Evaluation, group: str, dims: int) -> None:
    scores = [score for score in evaluation.means if score.group == group and score.cut.dims == dims]
    heat_map(axes, {(score.cut.layers, score.document_layers): score.value for score in scores})
    axes.set_title(f"{group}, {dims} dims: {_metric([evaluation], group)}")
    pairs = any(task.kind == "pairs" for task in evaluation.tasks if task.group == group)
    across, down = ("the second text", "the first text") if pairs else ("documents", "queries")
    axes.set(xlabel=f"layers of {across}", ylabel=f"layers of {down}")


def _table(evaluation: Evaluation, group: str) -> Table:
    """The scores of a group; with the deepest documents, if documents have their own number of layers."""
    deepest = max(evaluation.document_layers, default=None)
    scores = (score for score in evaluation.means if score.group == group)
    return {score.cut: score for score in scores if deepest in (None, score.document_layers)}


def _title(evaluations: Sequence[Evaluation], group: str) -> str:
    deepest = {max(evaluation.document_layers) for evaluation in evaluations if evaluation.document_layers}
    if not deepest:
        return group
    return f"{group}, documents of {deepest.pop()} layers" if len(deepest) == 1 else f"{group}, deepest documents"


def _metric(evaluations: Sequence[Evaluation], group: str) -> str:
    metric = next(score.metric for one in evaluations for score in one.means if score.group == group)
    return f"{display_name(metric)} ×100"


def _over_layers(table: Table, dims: int) -> list[Point]:
    cuts = (cut for cut in sorted(table) if cut.dims == dims)
    return [Point(cut.layers, table[cut].value, table[cut].low, table[cut].high) for cut in cuts]


def _over_dims(table: Table, layers: int) -> list[Point]:
    cuts = (cut for cut in sorted(table) if cut.layers == layers)
    return [Point(cut.dims, table[cut].value, table[cut].low, table[cut].high) for cut in cuts]


def _size_lines(sizes: Iterable[int], points: Callable[[int], list[Point]]) -> list[Line]:
    few = _few(sizes, _MAX_LINES)
    lines = [size_line(f"{size}", points(size), index / max(1, len(few) - 1)) for index, size in enumerate(few)]
    # Bands of neighbouring sizes overlap, so only the smallest and the largest size have theirs.
    return [*lines[:1], *map(_without_band, lines[1:-1]), *lines[1:][-1:]]


def _without_band(line: Line) -> Line:
    return replace(line, points=[replace(point, low=None, high=None) for point in line.points])


def _few(values: Iterable[int], limit: int) -> list[int]:
    """At most `limit` of `values`, evenly spread, always with the smallest and the largest.

    >>> _few(range(13), 5)
    [0, 3, 6, 9, 12]
    """
    ordered = sorted(values)
    if len(ordered) <= limit:
        return ordered
    return [ordered[round(step * (len(ordered) - 1) / (limit - 1))] for step in range(limit)]
