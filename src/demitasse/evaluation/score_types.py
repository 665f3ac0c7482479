"""Scores at cuts: the value types of an evaluation, means over groups and layers, and their intervals. No torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from demitasse.cut import Cut
from demitasse.errors import DataError
from demitasse.evaluation.bootstrap import interval

SideCuts = tuple[Cut, int]  # the cut of the queries, and the layers of the documents; both have the same dims
ScoreKey = tuple[str, Cut, int]  # a task or a group, and its side cuts
Draws = npt.NDArray[np.float64]  # a score on each bootstrap draw
_Key = TypeVar("_Key")
_Member = TypeVar("_Member")


@dataclass(frozen=True)
class TaskFacts:
    """What a score was measured on."""

    name: str
    group: str
    kind: str  # "pairs" or "search"
    metric: str
    counts: Mapping[str, int]  # pairs; or queries, documents and judgements
    sha256: str  # of the texts and their human judgements


@dataclass(frozen=True)
class Score:
    """The score of one cut on one task, or its mean over a group of tasks. Everything is times 100."""

    task: str  # for a group, the group's name
    group: str
    metric: str
    cut: Cut
    document_layers: int  # of the documents or second texts; `cut.layers` unless other layers were asked for
    value: float
    low: float | None = None  # of the 95% interval; `None` without resampling
    high: float | None = None
    others: Mapping[str, float] = field(default_factory=dict)  # further metrics of a search

    @property
    def key(self) -> ScoreKey:
        """What was scored: the task or group, the cut and the layers of the documents."""
        return (self.task, self.cut, self.document_layers)


@dataclass(frozen=True)
class Shallow:
    """The mean of a task or group over every number of layers from 1 to one less than all, the same on both sides."""

    task: str  # or a group
    dims: int
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Difference:
    """How far one score is above another on the very same data: with a 95% interval and a two-sided p.

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
    """The cuts at `dims` that have some of the layers but not all of them."""
    return [Cut(layers, dims) for layers in range(1, full.layers)]


def mean_draws(draws: Sequence[Draws]) -> Draws:
    """The mean of several scores, draw by draw."""
    mean: Draws = np.mean(draws, axis=0)
    return mean


def mean_interval(draws: Sequence[Draws | None]) -> tuple[float | None, float | None]:
    """The interval of the mean of several scores; none if any of them has no draws."""
    known = [one for one in draws if one is not None]
    return interval(mean_draws(known)) if len(known) == len(draws) else (None, None)


def mean_of_groups(groups: Sequence[str], values: Sequence[npt.ArrayLike]) -> Draws:
    """The mean over groups of the mean within each group: one value (or row of draws) per task, and its group.

    >>> float(mean_of_groups(["sts", "sts", "search"], [70.0, 80.0, 25.0]))
    50.0
    """
    means = [np.mean(np.asarray(members, float), axis=0) for members in _by_key(groups, values).values()]
    return mean_draws(means)


def group_means(scores: Iterable[Score], draws: Mapping[ScoreKey, Draws]) -> tuple[Score, ...]:
    """The mean of each group of tasks at each cut, with the interval from the draws of its tasks."""
    scores = tuple(scores)
    groups = _by_key([(score.group, score.cut, score.document_layers) for score in scores], scores)
    return tuple(_group_mean(key, members, draws) for key, members in groups.items())


def shallow_means(scores: Iterable[Score], draws: Mapping[ScoreKey, Draws], full: Cut) -> tuple[Shallow, ...]:
    """The mean of each task and group over its shallow cuts, at all dims where each of them was measured."""
    shallow: dict[tuple[str, int], dict[ScoreKey, Score]] = {}
    for score in scores:
        if score.document_layers == score.cut.layers and 0 < score.cut.layers < full.layers:
            for name in dict.fromkeys((score.task, score.group)):
                shallow.setdefault((name, score.cut.dims), {})[score.key] = score
    means = []
    for (name, dims), members in shallow.items():
        tasks = {score.task for score in members.values()}
        if len(members) == len(tasks) * (full.layers - 1):
            value = float(np.mean([score.value for score in members.values()]))
            means.append(Shallow(name, dims, value, *mean_interval([draws.get(key) for key in members])))
    return tuple(means)


def interval_of(score: Score | Shallow) -> tuple[float, float]:
    """The interval of a score, which must have one."""
    if score.low is None or score.high is None:
        raise DataError("this evaluation has no intervals, since nothing was resampled; evaluate with resamples=1000")
    return score.low, score.high


def _group_mean(key: ScoreKey, members: Sequence[Score], draws: Mapping[ScoreKey, Draws]) -> Score:
    group, cut, document_layers = key
    metrics = {score.metric for score in members}
    shared = set.intersection(*(set(score.others) for score in members))
    low, high = mean_interval([draws.get(score.key) for score in members])
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


def _by_key(keys: Iterable[_Key], members: Iterable[_Member]) -> dict[_Key, list[_Member]]:
    """The members that share each key, in the order in which keys first occur."""
    grouped: dict[_Key, list[_Member]] = {}
    for key, member in zip(keys, members, strict=True):
        grouped.setdefault(key, []).append(member)
    return grouped
