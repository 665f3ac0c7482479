"""Evaluations as tables for a terminal: layers down and dims across, layers of both sides, or models compared."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from demitasse.cut import Cut
from demitasse.evaluation.evaluation import Evaluation
from demitasse.evaluation.score_types import Difference, Score, Shallow

# From the lowest score of a table to the highest; pale enough for black letters, and no red beside green.
_LOW, _HIGH = (253, 236, 200), (122, 190, 214)
MANY = 12  # cuts from which on a comparison shows only some


@dataclass(frozen=True)
class _Part:
    """A table and what is said above and below it; beside the table, which may be narrower than that."""

    title: str
    table: Table
    note: str = ""
    intervals: bool = True


def show(evaluations: Sequence[Evaluation], console: Console) -> None:
    """Print one evaluation cut by cut, or how several differ from the first."""
    first = evaluations[0]
    compared = len(evaluations) > 1 and not first.document_layers
    for evaluation in evaluations:
        console.print(_heading(evaluation), highlight=False)
    intervals = False
    for group in first.groups:
        parts = [_comparison(evaluations, group)] if compared else _grids(evaluations, group, console)
        for part in parts:
            intervals = intervals or part.intervals
            console.print()
            console.print(part.title, style="bold", highlight=False, markup=False)
            console.print(part.table)
            if part.note:
                console.print(part.note, style="dim", highlight=False, markup=False)
    if first.resamples and intervals:
        said = f"\n± is half of a 95% interval, from {first.resamples:,} resamples of the rows of each task"
        console.print(said, style="dim", highlight=False)


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
            cells = [[scores.get((Cut(row, column), row)) for column in dims] for row in layers]
            found = {one.dims: one for one in evaluation.shallows if one.task == group}
            last = [found.get(number) for number in dims]
            rows = [*map(str, layers), f"mean of 1 to {evaluation.full.layers - 1}"]
            table, shown = _grid(["layers \\ dims", *map(str, dims)], rows, [*cells, last] if found else cells, console)
            yield _Part(title, table, _largest(evaluation, group), shown)
            continue
        pairs = all(task.kind == "pairs" for task in evaluation.tasks if task.group == group)
        corner = "one side \\ other side" if pairs else "queries \\ documents"
        for number in dims:
            columns = list(evaluation.document_layers)
            cells = [[scores.get((Cut(row, number), column)) for column in columns] for row in layers]
            table, shown = _grid([corner, *map(str, columns)], [*map(str, layers)], cells, console)
            yield _Part(f"{title}; layers of both sides at {number} dims", table, intervals=shown)


def _title(evaluation: Evaluation, group: str) -> str:
    tasks = [task for task in evaluation.tasks if task.group == group]
    metrics = {task.metric for task in tasks}
    metric = metrics.pop() if len(metrics) == 1 else "score"
    counts = {name: sum(task.counts.get(name, 0) for task in tasks) for name in tasks[0].counts}
    rows = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    mean = f"mean {metric} x 100 of {len(tasks)} tasks" if len(tasks) > 1 else f"{metric} x 100"
    return f"{group}: {mean}, {rows}"


def _grid(
    headings: Sequence[str],
    rows: Sequence[str],
    cells: Sequence[Sequence[Score | Shallow | None]],
    console: Console,
) -> tuple[Table, bool]:
    """Scores shaded from the lowest to the highest, and whether there was room for their intervals."""
    found = [score for line in cells for score in line if score is not None]
    bounds = min(score.value for score in found), max(score.value for score in found)
    for width in (max(len(_half(score)) for score in found), 0):  # of an interval
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
        for heading in headings:
            table.add_column(heading, justify="right", no_wrap=True)
        for row, line in zip(rows, cells, strict=False):
            if any(isinstance(score, Shallow) for score in line):
                table.add_section()
            table.add_row(row, *(_cell(score, bounds, width) for score in line))
        if console.measure(table, options=console.options.update(max_width=1000)).maximum <= console.width:
            break
    return table, width > 0


def _cell(score: Score | Shallow | None, bounds: tuple[float, float], width: int) -> Text:
    """The score, shaded by where it lies within `bounds`, and its interval in `width` columns."""
    if score is None:
        return Text("")
    lowest, highest = bounds
    share = (score.value - lowest) / (highest - lowest) if highest > lowest else 1.0
    red, green, blue = (round(low + share * (high - low)) for low, high in zip(_LOW, _HIGH, strict=True))
    text = Text(f" {score.value:.1f} ", style=f"black on rgb({red},{green},{blue})")
    return text.append(_half(score).ljust(width) if width else "", style="dim")


def _half(score: Score | Shallow) -> str:
    return "" if score.low is None or score.high is None else f"±{(score.high - score.low) / 2:.1f}"


def _largest(evaluation: Evaluation, group: str) -> str:
    """What the largest cut scores task by task or, where the group is one task, by its other metrics."""
    cut = evaluation.cuts[-1]
    members = [score for score in evaluation.scores if score.group == group and score.cut == cut]
    parts = {score.task: score.value for score in members} if len(members) > 1 else dict(members[0].others)
    return f"{cut}: " + ", ".join(f"{name} {value:.1f}" for name, value in parts.items()) if parts else ""


def _comparison(evaluations: Sequence[Evaluation], group: str) -> _Part:
    """The models below one another: each as a whole, then at the cuts that all of them have."""
    first, *others = evaluations
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("cut", "model", "score", "difference", "95% interval", "p"):
        table.add_column(heading, justify="left" if heading == "model" else "right")
    shared = set(first.cuts).intersection(*(other.cuts for other in others))
    shown = _few(shared)
    wholes = [evaluation.full for evaluation in evaluations]
    if len({*wholes}) > 1 and all(full in one.cuts for one, full in zip(evaluations, wholes, strict=True)):
        _add_models(table, evaluations, group, wholes)
    for cut in sorted(shown, key=lambda cut: (-cut.layers, -cut.dims)):
        _add_models(table, evaluations, group, [cut] * len(evaluations))
    for dims in sorted({cut.dims for cut in shown}, reverse=True):
        _add_shallow(table, evaluations, group, dims)
    left_out = len(shared) - len(shown)
    note = f"{left_out} further cuts were measured; see others with --layers and --dims" if left_out else ""
    return _Part(f"{_title(first, group)}; difference to {first.model}", table, note)


def _few(cuts: Collection[Cut]) -> list[Cut]:
    """All of a few cuts; of many, those at the largest number of dims and at a third of it or a little less."""
    widths = sorted({cut.dims for cut in cuts})
    if len(cuts) <= MANY or len(widths) < 2:
        return list(cuts)
    narrow = max((width for width in widths if 3 * width <= widths[-1]), default=widths[0])
    return [cut for cut in cuts if cut.dims in (narrow, widths[-1])]


def _add_models(table: Table, evaluations: Sequence[Evaluation], group: str, cuts: Sequence[Cut]) -> None:
    first = evaluations[0]
    rows = zip(evaluations, cuts, strict=True)
    _add(
        table,
        [
            _Row(str(cut), one.model, one.find(group, cut), partial(one.difference, first, group, cut, cuts[0]))
            for one, cut in rows
        ],
    )


def _add_shallow(table: Table, evaluations: Sequence[Evaluation], group: str, dims: int) -> None:
    """The means of the shallow cuts, where every model has them."""
    first, rows = evaluations[0], []
    for one in evaluations:
        label = f"mean 1-{one.full.layers - 1}x{dims}"
        means = [mean for mean in one.shallows if (mean.task, mean.dims) == (group, dims)]
        rows += [_Row(label, one.model, mean, partial(one.shallow_difference, first, group, dims)) for mean in means]
    if len(rows) == len(evaluations):
        _add(table, rows)


class _Row(NamedTuple):
    cut: str
    model: str
    score: Score | Shallow
    difference: Callable[[], Difference]  # to the first model


def _add(table: Table, rows: Sequence[_Row]) -> None:
    """A section with the models below one another: the difference to the first, its interval and p."""
    table.add_section()
    first = rows[0].score
    for number, row in enumerate(rows):
        more: list[Text] = []
        if number and row.score.low is not None and first.low is not None:
            found = row.difference()
            parts = (f"{found.value:+.2f}", f"{found.low:+.2f} to {found.high:+.2f}", f"{found.p:.3f}")
            more = [Text(part, "dim" if found.low <= 0 <= found.high else "bold") for part in parts]
        elif number:
            more = [Text(f"{row.score.value - first.value:+.2f}")]
        table.add_row(row.cut, row.model, f"{row.score.value:.1f} {_half(row.score):<5}", *more)
