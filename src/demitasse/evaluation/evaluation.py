"""`Evaluation`: the scores of an encoder at each cut, with intervals and paired differences. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from demitasse.arguments import instance, text, whole
from demitasse.cut import Cut
from demitasse.errors import CutError, DataError
from demitasse.evaluation.bootstrap import interval, paired_p
from demitasse.evaluation.score_types import (
    Difference,
    Draws,
    Score,
    ScoreKey,
    Shallow,
    SideCuts,
    TaskFacts,
    interval_of,
    mean_draws,
    shallow_cuts,
)


@dataclass(frozen=True)
class Evaluation:
    """The scores of an encoder at each cut; from `demitasse.evaluate`, or read by `demitasse.read_evaluation`.

    Methods take the name of a task or of a group, whose score is the mean of its tasks.

    >>> import demitasse as dt
    >>> evaluation = dt.evaluate(encoder, ["sample"], cuts=dt.grid([1, 2, 3], [8, 32]), resamples=100)
    >>> evaluation.groups
    ('sample-pairs', 'sample-search')
    >>> low, high = evaluation.interval("sample-pairs", dt.Cut(2, 8))
    >>> low < evaluation.score("sample-pairs", dt.Cut(2, 8)) < high
    True
    >>> evaluation.shallow("sample-pairs", 8) == (
    ...     evaluation.score("sample-pairs", dt.Cut(1, 8)) + evaluation.score("sample-pairs", dt.Cut(2, 8))
    ... ) / 2
    True
    >>> low, high = evaluation.shallow_interval("sample-pairs", 8)
    >>> low < evaluation.shallow("sample-pairs", 8) < high
    True
    """

    model: str
    fingerprint: str
    full: Cut
    precision: str
    versions: Mapping[str, str]
    tasks: tuple[TaskFacts, ...]
    scores: tuple[Score, ...]  # of each task
    means: tuple[Score, ...]  # of each group
    shallows: tuple[Shallow, ...]  # of each task and group, at the dims where all shallow cuts were measured
    seconds: float
    resamples: int = 0
    # Of every task. There are too many to write to a file.
    draws: Mapping[ScoreKey, Draws] = field(default_factory=dict, repr=False, compare=False)

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups of tasks, in the order given."""
        return tuple(dict.fromkeys(task.group for task in self.tasks))

    @property
    def cuts(self) -> tuple[Cut, ...]:
        """The cuts that were measured, smallest first."""
        return tuple(sorted({score.cut for score in self.means}))

    @property
    def document_layers(self) -> tuple[int, ...]:
        """The numbers of document layers measured; empty if both sides were always at the same cut."""
        if all(score.document_layers == score.cut.layers for score in self.means):
            return ()
        return tuple(sorted({score.document_layers for score in self.means}))

    def find(self, name: str, cut: Cut | str, document_layers: int | None = None) -> Score:
        """The score of a task or group at `cut`, for both sides unless `document_layers` is given."""
        name, cut = text("name", name), Cut.of(cut)
        layers = cut.layers if document_layers is None else whole("document_layers", document_layers)
        score = self._by_key.get((name, cut, layers))
        if score is None:
            names = dict.fromkeys(known for known, _, _ in self._by_key)
            if name not in names:
                raise DataError(f"nothing called {name!r} was measured; choose one of {', '.join(sorted(names))}")
            against = "" if document_layers is None else f" against documents of {layers} layers"
            raise DataError(f"cut {cut}{against} was not measured on {name}; add it to the cuts of evaluate")
        return score

    def score(self, name: str, cut: Cut | str, document_layers: int | None = None) -> float:
        """The main metric of a task, or the mean of a group, times 100."""
        return self.find(name, cut, document_layers).value

    def interval(self, name: str, cut: Cut | str, document_layers: int | None = None) -> tuple[float, float]:
        """The 95% interval of `score`."""
        return interval_of(self.find(name, cut, document_layers))

    def shallow(self, name: str, dims: int) -> float:
        """The mean over every number of layers from 1 to one less than all, at `dims`: the "< Avg" of the ESE paper."""
        return self._shallow(name, dims).value

    def shallow_interval(self, name: str, dims: int) -> tuple[float, float]:
        """The 95% interval of `shallow`."""
        return interval_of(self._shallow(name, dims))

    def share(self, name: str, cut: Cut | str) -> float:
        """The score at `cut` as a share of the full model's."""
        full = self.score(name, self.full)
        if not full:
            raise DataError(f"the full model scores 0 on {name}, so there is no share of it; use score instead")
        return self.score(name, cut) / full

    def difference(
        self,
        other: Evaluation,
        name: str,
        cut: Cut | str,
        other_cut: Cut | str | None = None,
        document_layers: int | None = None,
    ) -> Difference:
        """How far the score at `cut` is above that of `other` (at `other_cut` if given), on the same bootstrap draws.

        `other` may be the same evaluation, to compare two of its cuts.
        """
        instance("other", other, Evaluation, "evaluate the other model, too")
        theirs = other.find(name, cut if other_cut is None else other_cut, document_layers)
        ours = self.find(name, cut, document_layers)
        drawn = [one._mean_draws(name, [at.key[1:]]) for one, at in ((self, ours), (other, theirs))]
        return self._difference(other, name, ours.value - theirs.value, *drawn)

    def shallow_difference(self, other: Evaluation, name: str, dims: int, other_dims: int | None = None) -> Difference:
        """How far `shallow` is above that of `other` (at `other_dims` if given), on the same bootstrap draws."""
        instance("other", other, Evaluation, "evaluate the other model, too")
        ours, theirs = self._shallow(name, dims), other._shallow(name, dims if other_dims is None else other_dims)
        drawn = [
            one._mean_draws(name, [(cut, cut.layers) for cut in shallow_cuts(one.full, at.dims)])
            for one, at in ((self, ours), (other, theirs))
        ]
        return self._difference(other, name, ours.value - theirs.value, *drawn)

    def save(self, path: str | Path) -> None:
        """Write everything but the draws to a JSON file, atomically; docs/evaluation.md lists every field."""
        from demitasse.evaluation.evaluation_json import as_plain
        from demitasse.host.json_files import save_result

        save_result(as_plain(self), path)

    @cached_property
    def _by_key(self) -> dict[ScoreKey, Score]:
        return {score.key: score for score in (*self.scores, *self.means)}

    def _shallow(self, name: str, dims: int) -> Shallow:
        name, dims = text("name", name), whole("dims", dims, 1)
        mean = next((one for one in self.shallows if (one.task, one.dims) == (name, dims)), None)
        if mean is None:
            cuts = shallow_cuts(self.full, dims)
            if not cuts:
                raise CutError(f"a model of {self.full.layers} layers has no shallow cuts; ask for the score of a cut")
            for cut in cuts:
                self.find(name, cut)  # says which one is missing
            raise DataError(f"the shallow mean of {name} at {dims} dims is missing; evaluate again")
        return mean

    def _difference(self, other: Evaluation, name: str, value: float, ours: Draws, theirs: Draws) -> Difference:
        if self._hashes(name) != other._hashes(name):
            raise DataError(f"the two evaluations used different data for {name}; evaluate both on the same")
        if len(ours) != len(theirs):
            counts = f"{len(ours)} and {len(theirs)}"
            raise DataError(f"the two evaluations have {counts} resamples; evaluate both with the same number")
        low, high = interval(ours - theirs)
        return Difference(value, low, high, paired_p(ours - theirs))

    def _hashes(self, name: str) -> dict[str, str]:
        """The content hash of each task behind `name`."""
        return {task.name: task.sha256 for task in self.tasks if name in (task.name, task.group)}

    def _mean_draws(self, name: str, side_cuts: Sequence[SideCuts]) -> Draws:
        """The draws of the mean of a task or group over `side_cuts`."""
        keys = [(task, *sides) for task in self._hashes(name) for sides in side_cuts]
        if any(key not in self.draws for key in keys):
            raise DataError(
                "a difference needs draws, which are not saved to files; run both evaluations here, with resamples"
            )
        return mean_draws([self.draws[key] for key in keys])
