"""Evaluations as tables for a terminal: layers by dims, layers of both sides, or models compared."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from demitasse.cut import Cut
from demitasse.display.model_names import short_names
from demitasse.evaluation.evaluation import Evaluation
from demitasse.evaluation.score_types import Difference, Score, Shallow

# From the lowest score of a table to the highest; pale enough for black text, and no red next to green.
_LOW, _HIGH = (253, 236, 200), (122, 190, 214)
Cells = Sequence[Sequence[Score | Shallow | None]]  # of a table, row by row
MANY = 12  # a comparison of more cuts shows only some of them


@dataclass(frozen=True)
class _Part:
    """A table with its title and a note below; they are printed separately, since a table may be narrower."""

    title: str
    table: Table
    note: str = ""


class _Layout(NamedTuple):
    """How the cells of a table are written, the widest way first."""

    margin: str  # left and right of a score
    interval: Literal["beside", "below"]


_LAYOUTS = (
    _Layout(" ", "beside"),
    _Layout("", "beside"),
    _Layout(" ", "below"),
    _Layout("", "below"),
)


class _Compared(NamedTuple):
    """The score of one model in a comparison."""

    label: str  # a cut, or the shallow cuts
    model: str
    score: Score | Shallow
    difference: Callable[[], Difference]  # from the first model


def show(evaluations: Sequence[Evaluation], console: Console) -> None:
    """Print one evaluation cut by cut, or how several differ from the first."""
    for evaluation in evaluations:
        console.print(_heading(evaluation), highlight=False)
    evaluations = [replace(one, model=name) for one, name in zip(evaluations, short_names(evaluations), strict=True)]
    first = evaluations[0]
    compared = len(evaluations) > 1 and not first.document_layers
    for group in first.groups:
        parts = [_comparison(evaluations, group)] if compared else _grids(evaluations, group, console)
        for part in parts:
            console.print()
            console.print(part.title, style="bold", highlight=False, markup=False)
            if console.measure(part.table, options=console.options.update(max_width=1000)).maximum > console.width:
                part.table.padding = (0, 1, 0, 0)
            console.print(part.table)
            if part.note:
                console.print(part.note, style="dim", highlight=False, markup=False)
    if first.resamples:
        note = f"\n± is half of a 95% interval, from {first.resamples:,} resamples of each task"
        console.print(note, style="dim", highlight=False)


def _heading(evaluation: Evaluation) -> Text:
    counts = f"{len(evaluation.cuts)} cuts on {len(evaluation.tasks)} tasks in {evaluation.seconds:.1f} s"
    return Text.assemble((evaluation.model, "bold"), f"  {evaluation.full} {evaluation.precision}, {counts}")


def _grids(evaluations: Sequence[Evaluation], group: str, console: Console) -> Iterator[_Part]:
    for evaluation in evaluations:
        name = f"{evaluation.model}, " if len(evaluations) > 1 else ""
        layers = sorted({cut.layers for cut in evaluation.cuts}, reverse=True)
        dims = sorted({cut.dims for cut in evaluation.cuts})
        scores = {score.key[1:]: score for score in evaluation.means if score.group == group}
        title = name + _title(evaluation, group)
        if not evaluation.document_layers:
            cells: Cells = [[scores.get((Cut(depth, width), depth)) for width in dims] for depth in layers]
            labels = [str(depth) for depth in layers]
            shallows = {one.dims: one for one in evaluation.shallows if one.task == group}
            if shallows:
                cells = [*cells, [shallows.get(width) for width in dims]]
                labels.append(f"mean of 1 to {evaluation.full.layers - 1}")
            table = _grid(["layers \\ dims", *map(str, dims)], labels, cells, console)
            yield _Part(title, table, _largest(evaluation, group))
            continue
        pairs = all(task.kind == "pairs" for task in evaluation.tasks if task.group == group)
        corner = "one side \\ other side" if pairs else "queries \\ documents"
        for width in dims:
            documents = list(evaluation.document_layers)
            cells = [[scores.get((Cut(depth, width), document)) for document in documents] for depth in layers]
            table = _grid([corner, *map(str, documents)], [*map(str, layers)], cells, console)
            yield _Part(f"{title}; layers of both sides at {width} dims", table)


def _title(evaluation: Evaluation, group: str) -> str:
    tasks = [task for task in evaluation.tasks if task.group == group]
    metrics = {task.metric for task in tasks}
    metric = metrics.pop() if len(metrics) == 1 else "score"
    counts = {name: sum(task.counts.get(name, 0) for task in tasks) for name in tasks[0].counts}
    size = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    mean = f"mean {metric} x 100 of {len(tasks)} tasks" if len(tasks) > 1 else f"{metric} x 100"
    return f"{group}: {mean}, {size}"


def _grid(
    headings: Sequence[str],
    labels: Sequence[str],
    cells: Cells,
    console: Console,
) -> Table:
    """Scores shaded from the lowest to the highest, with their intervals, in the widest layout there is room for."""
    scores = [score for row in cells for score in row if score is not None]
    values = [score.value for score in scores]
    bounds = min(values, default=0.0), max(values, default=0.0)  # a file may have no score for any of the cells
    width = max((len(_half(score)) for score in scores), default=0)
    for layout in _LAYOUTS:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
        for heading in headings:
            table.add_column(heading, justify="right", no_wrap=True)
        for label, row in zip(labels, cells, strict=True):
            if any(isinstance(score, Shallow) for score in row):
                table.add_section()
            table.add_row(label, *(_cell(score, bounds, width, layout) for score in row))
        if console.measure(table, options=console.options.update(max_width=1000)).maximum <= console.width:
            break
    return table


def _cell(score: Score | Shallow | None, bounds: tuple[float, float], width: int, layout: _Layout) -> Text:
    """The score, shaded by where it lies within `bounds`, and its interval, padded to `width`."""
    if score is None:
        return Text("")
    lowest, highest = bounds
    share = (score.value - lowest) / (highest - lowest) if highest > lowest else 1.0
    red, green, blue = (round(low + share * (high - low)) for low, high in zip(_LOW, _HIGH, strict=True))
    margin = layout.margin
    text = Text(f"{margin}{score.value:.1f}{margin}", style=f"black on rgb({red},{green},{blue})")
    if not width:
        return text
    if layout.interval == "below":
        return text.append(f"\n{_half(score)}{margin}", style="dim")
    return text.append(f"{'' if margin else ' '}{_half(score):<{width}}", style="dim")


def _half(score: Score | Shallow) -> str:
    return "" if score.low is None or score.high is None else f"±{(score.high - score.low) / 2:.1f}"


def _largest(evaluation: Evaluation, group: str) -> str:
    """The scores of the largest cut on each task or, if the group is a single task, its other metrics."""
    cut = evaluation.cuts[-1]
    members = [score for score in evaluation.scores if score.group == group and score.cut == cut]
    if not members:  # a file may have the mean of a group without its tasks
        return ""
    parts = {score.task: score.value for score in members} if len(members) > 1 else dict(members[0].others)
    return f"{cut}: " + ", ".join(f"{name} {value:.1f}" for name, value in parts.items()) if parts else ""


def _comparison(evaluations: Sequence[Evaluation], group: str) -> _Part:
    """The models below one another: each at its full size, then at the cuts that all of them have."""
    first, *others = evaluations
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("cut", justify="right", min_width=6)
    table.add_column("model", overflow="fold", min_width=min(8, max(len(one.model) for one in evaluations)))
    for heading in ("score", "difference", "95% interval", "p"):
        whole = heading != "95% interval"
        table.add_column(heading, justify="right", no_wrap=whole, min_width=None if whole else 8)
    shared = set(first.cuts).intersection(*(other.cuts for other in others))
    shown = _few(shared)
    full_sizes = [evaluation.full for evaluation in evaluations]
    if len({*full_sizes}) > 1 and all(full in one.cuts for one, full in zip(evaluations, full_sizes, strict=True)):
        _add_models(table, evaluations, group, full_sizes)
    for cut in sorted(shown, key=lambda cut: (-cut.layers, -cut.dims)):
        _add_models(table, evaluations, group, [cut] * len(evaluations))
    for dims in sorted({cut.dims for cut in shown}, reverse=True):
        _add_shallow(table, evaluations, group, dims)
    left_out = len(shared) - len(shown)
    note = f"{left_out} more cuts were measured; show them with --layers and --dims" if left_out else ""
    return _Part(f"{_title(first, group)}; difference from {first.model}", table, note)


def _few(cuts: Collection[Cut]) -> list[Cut]:
    """All cuts if they are few; if they are many, those at the most dims and at a third of that or a little less."""
    widths = sorted({cut.dims for cut in cuts})
    if len(cuts) <= MANY or len(widths) < 2:
        return list(cuts)
    narrow = max((width for width in widths if 3 * width <= widths[-1]), default=widths[0])
    return [cut for cut in cuts if cut.dims in (narrow, widths[-1])]


def _add_models(table: Table, evaluations: Sequence[Evaluation], group: str, cuts: Sequence[Cut]) -> None:
    first = evaluations[0]
    _add_section(
        table,
        [
            _Compared(str(cut), one.model, one.find(group, cut), partial(one.difference, first, group, cut, cuts[0]))
            for one, cut in zip(evaluations, cuts, strict=True)
        ],
    )


def _add_shallow(table: Table, evaluations: Sequence[Evaluation], group: str, dims: int) -> None:
    """The means of the shallow cuts, if every model has them."""
    first, compared = evaluations[0], []
    for one in evaluations:
        label = f"mean 1-{one.full.layers - 1}x{dims}"
        means = [mean for mean in one.shallows if (mean.task, mean.dims) == (group, dims)]
        difference = partial(one.shallow_difference, first, group, dims)
        compared += [_Compared(label, one.model, mean, difference) for mean in means]
    if len(compared) == len(evaluations):
        _add_section(table, compared)


def _add_section(table: Table, compared: Sequence[_Compared]) -> None:
    """A section with the models below one another: the difference from the first, its interval and p."""
    table.add_section()
    first = compared[0].score
    for number, one in enumerate(compared):
        columns: list[Text] = []
        if number and one.score.low is not None and first.low is not None:
            difference = one.difference()
            low, high = difference.low, difference.high
            texts = (f"{difference.value:+.2f}", f"{low:+.2f} to {high:+.2f}", f"{difference.p:.3f}")
            columns = [Text(text, "dim" if low <= 0 <= high else "bold") for text in texts]
        elif number:
            columns = [Text(f"{one.score.value - first.value:+.2f}")]
        table.add_row(one.label, Text(one.model), f"{one.score.value:.1f} {_half(one.score):<5}", *columns)
