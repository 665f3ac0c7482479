"""Scores at cuts: the value types of an evaluation, means over groups and layers, and their intervals. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from demitasse.cut import Cut
from demitasse.errors import DataError
from demitasse.evaluation.bootstrap import interval

Place = tuple[Cut, int]  # a cut, and the layers of the documents that go with it
Cell = tuple[str, Cut, int]  # a task or a group, and a place
Draws = npt.NDArray[np.float64]  # a score over and over, each time on other rows drawn from the task


@dataclass(frozen=True)
class TaskFacts:
    """What a score was measured on."""

    name: str
    group: str
    kind: str  # "pairs" or "search"
    metric: str
    counts: Mapping[str, int]  # pairs; or queries, documents and judgements
    sha256: str  # of the texts and what people said of them


@dataclass(frozen=True)
class Score:
    """What one cut scores on one task, or on the mean of a group of tasks. Everything is times 100."""

    task: str  # a group has its own name here
    group: str
    metric: str
    cut: Cut
    document_layers: int  # of the documents or second texts; `cut.layers` unless something else was asked for
    value: float
    low: float | None = None  # of the 95% interval; `None` where nothing was resampled
    high: float | None = None
    others: Mapping[str, float] = field(default_factory=dict)  # further metrics of a search

    @property
    def cell(self) -> Cell:
        """What was measured, and where."""
        return (self.task, self.cut, self.document_layers)


@dataclass(frozen=True)
class Shallow:
    """The mean of a task or group over every number of layers from 1 to one less than all, both sides alike."""

    task: str  # or a group
    dims: int
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Difference:
    """How far one score is above another on the very same rows: with a 95% interval and a two-sided p.

    >>> print(Difference(1.324, 0.91, 1.72, 0.002))
    +1.32 (0.91 to 1.72, p = 0.002)
    """

    value: float
    low: float
    high: float
    p: float

    def __str__(self) -> str:
        return f"{self.value:+.2f} ({self.low:.2f} to {self.high:.2f}, p = {self.p:.3f})"


def shallow_cuts(full: Cut, dims: int) -> list[Cut]:
    """The cuts of `dims` that have some of the layers and not all of them."""
    return [Cut(layers, dims) for layers in range(1, full.layers)]


def mean_draws(draws: Sequence[Draws]) -> Draws:
    """The mean of several scores, draw by draw."""
    mean: Draws = np.mean(draws, axis=0)
    return mean


def ends(draws: Sequence[Draws | None]) -> tuple[float | None, float | None]:
    """The interval of the mean of several scores; none where nothing was drawn."""
    held = [one for one in draws if one is not None]
    return interval(mean_draws(held)) if len(held) == len(draws) else (None, None)


def group_means(scores: Iterable[Score], draws: Mapping[Cell, Draws]) -> tuple[Score, ...]:
    """The mean of each group of tasks at each cut, with the interval that the draws of its tasks give."""
    cells: dict[Cell, list[Score]] = {}
    for score in scores:
        cells.setdefault((score.group, score.cut, score.document_layers), []).append(score)
    return tuple(_mean(cell, members, draws) for cell, members in cells.items())


def shallow_means(scores: Iterable[Score], draws: Mapping[Cell, Draws], full: Cut) -> tuple[Shallow, ...]:
    """The mean of each task and group over its shallow cuts, at all dims where each of them was measured."""
    found: dict[tuple[str, int], dict[Cell, Score]] = {}
    for score in scores:
        if score.document_layers == score.cut.layers and 0 < score.cut.layers < full.layers:
            for name in dict.fromkeys((score.task, score.group)):
                found.setdefault((name, score.cut.dims), {})[score.cell] = score
    means = []
    for (name, dims), members in found.items():
        tasks = {score.task for score in members.values()}
        if len(members) == len(tasks) * (full.layers - 1):
            value = float(np.mean([score.value for score in members.values()]))
            means.append(Shallow(name, dims, value, *ends([draws.get(cell) for cell in members])))
    return tuple(means)


def _mean(cell: Cell, members: list[Score], draws: Mapping[Cell, Draws]) -> Score:
    group, cut, document_layers = cell
    metrics = {score.metric for score in members}
    shared = set.intersection(*(set(score.others) for score in members))
    low, high = ends([draws.get(score.cell) for score in members])
    return Score(
        task=group,
        group=group,
        metric=metrics.pop() if len(metrics) == 1 else "mean",
        cut=cut,
        document_layers=document_layers,
        value=float(np.mean([score.value for score in members])),
        low=low,
        high=high,
        others={
            name: float(np.mean([score.others[name] for score in members]))
            for name in members[0].others
            if name in shared
        },
    )


def interval_of(score: Score | Shallow) -> tuple[float, float]:
    """The interval of a score that must have one."""
    if score.low is None or score.high is None:
        raise DataError("this evaluation has no intervals, for nothing was resampled; evaluate with resamples=1000")
    return score.low, score.high
