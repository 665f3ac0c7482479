"""What the quality of a cut is: scores on tasks or, without labels, agreement with the full model. No torch.

Vectors are judged as they are kept: both sides of a task are stored, restored and then scored, so that what a kind of
vectors costs is measured and not guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np

from demitasse.cut import Cut
from demitasse.encoding.encoder import Encoder, Vectors
from demitasse.encoding.vectors import restore, store
from demitasse.errors import DataError
from demitasse.evaluation.bootstrap import interval, resampled
from demitasse.evaluation.embedding_cache import encode_layers
from demitasse.evaluation.evaluate import given_tasks
from demitasse.evaluation.task_vectors import encode_sides, narrowed, texts_of
from demitasse.evaluation.tasks import PairTask, Scores, Task
from demitasse.host.text_lines import read_lines
from demitasse.planning.agreement import Reference, usable_texts
from demitasse.planning.timing import Text

Cell = tuple[str, Cut, str]  # an encoder by its name, a cut of it, and how its vectors are kept
_METRICS = {"spearman": "Spearman", "ndcg@10": "nDCG@10"}


@dataclass(frozen=True)
class Qualities:
    """The quality of every cell, and how far that of the first encoder at its full size may be off on these rows."""

    values: Mapping[Cell, float]
    error: float = 0.0  # half of the 95% interval; 0 where nothing was resampled


@dataclass(frozen=True)
class Scored:
    """Quality as scores on tasks: the mean of each group of them, and of the groups."""

    tasks: Sequence[Task]

    @property
    def measure(self) -> str:
        """What quality is, in words."""
        groups: dict[str, dict[str, None]] = {}
        for task in self.tasks:
            groups.setdefault(task.group, {})[_METRICS.get(task.metric, task.metric)] = None
        said = [f"{' or '.join(metrics)} on {group}" for group, metrics in groups.items()]
        return said[0] if len(said) == 1 else f"mean of {', '.join(said[:-1])} and {said[-1]}"

    @property
    def alone(self) -> list[Text]:
        """Texts that come one at a time: queries, and all texts of pairs."""
        sides = [side for task in self.tasks for side in task.sides[: 2 if isinstance(task, PairTask) else 1]]
        return [*dict.fromkeys((text, side.prompt) for side in sides for text in side.texts)]

    @property
    def batched(self) -> list[Text]:
        """Texts that come many at a time: documents, and all texts of pairs."""
        sides = [side for task in self.tasks for side in task.sides[0 if isinstance(task, PairTask) else 1 :]]
        return [*dict.fromkeys((text, side.prompt) for side in sides for text in side.texts)]

    @property
    def count(self) -> int:
        """How many texts each encoder encodes."""
        return sum(len(texts) for task in self.tasks for texts in texts_of(task).values())

    def qualities(
        self, encoders: Mapping[str, Encoder], cuts: Sequence[Cut], kinds: Sequence[str], advance: Callable[[int], None]
    ) -> Qualities:
        """Every cut of every encoder in each kind of vectors, from one pass over the texts for each encoder."""
        values: dict[Cell, float] = {}
        errors = []
        for name, encoder in encoders.items():
            found = [self._scores(encoder, task, cuts, kinds, advance) for task in self.tasks]
            for cut, kind in found[0]:
                values[name, cut, kind] = self._mean([scores[cut, kind].main for scores in found])
            errors.append(self._error([scores[max(cuts), kinds[0]] for scores in found]))
        return Qualities(values, errors[0])

    def _scores(
        self, encoder: Encoder, task: Task, cuts: Sequence[Cut], kinds: Sequence[str], advance: Callable[[int], None]
    ) -> dict[tuple[Cut, str], Scores]:
        layers = {cut.layers for cut in cuts}
        sides = encode_sides(encoder, task, (layers, layers), advance=advance)
        scores = {}
        for cut in cuts:
            rows = [side(*cut) for side in sides]
            for kind in kinds:
                scores[cut, kind] = task.score(*(kept(side, kind) for side in rows))
        return scores

    def _mean(self, values: Sequence[float]) -> float:
        """The mean over groups of the means of their tasks, of which there is one value each."""
        groups: dict[str, list[float]] = {}
        for task, value in zip(self.tasks, values, strict=True):
            groups.setdefault(task.group, []).append(value)
        return fmean(map(fmean, groups.values()))

    def _error(self, scores: Sequence[Scores]) -> float:
        """Half of the interval that drawing the rows of every task anew gives."""
        draws = [resampled(task, found) for task, found in zip(self.tasks, scores, strict=True)]
        low, high = interval(np.array([self._mean(drawn) for drawn in zip(*draws, strict=True)]))
        return (high - low) / 2


@dataclass(frozen=True)
class Agreed:
    """Quality as agreement with the first encoder at its full size, on texts without labels."""

    texts: Sequence[str]
    name: str  # of the texts

    @property
    def measure(self) -> str:
        """What quality is, in words."""
        return f"agreement with the full model on {len(self.texts):,} texts of {self.name}"

    @property
    def alone(self) -> list[Text]:
        """Texts that come one at a time: all of them."""
        return [(text, None) for text in self.texts]

    batched = alone

    @property
    def count(self) -> int:
        """How many texts each encoder encodes."""
        return len(self.texts)

    def qualities(
        self, encoders: Mapping[str, Encoder], cuts: Sequence[Cut], kinds: Sequence[str], advance: Callable[[int], None]
    ) -> Qualities:
        """Every cut of every encoder in each kind of vectors, from one pass over the texts for each encoder."""
        values: dict[Cell, float] = {}
        reference: Reference | None = None
        for name, encoder in encoders.items():
            layers = {cut.layers for cut in cuts} | {encoder.full.layers}
            rows = encode_layers(encoder, self.texts, layers, None, None, advance)
            reference = reference or Reference(rows[encoder.full.layers])
            for cut in cuts:
                narrow = narrowed(rows[cut.layers], cut.dims)
                for kind in kinds:
                    values[name, cut, kind] = reference.agreement(kept(narrow, kind))
        return Qualities(values)


def quality_source(
    tasks: Sequence[str | Path | Task] | None, texts: Sequence[str] | str | Path | None
) -> Scored | Agreed:
    """What to judge by: `tasks`, or `texts` (a list, or a file with one a line), or the sample if neither is given."""
    if tasks is not None and texts is not None:
        raise DataError("both tasks and texts were given, and quality is one thing; give one of them")
    if texts is None:
        return Scored(given_tasks(["sample"] if tasks is None else tasks))
    if isinstance(texts, (str, Path)):
        return Agreed(usable_texts([*read_lines(Path(texts))]), Path(texts).name)
    return Agreed(usable_texts(texts), "a list")


def kept(rows: Vectors, kind: str) -> Vectors:
    """Unit rows as they come back from where they were kept."""
    return rows if kind == "float32" else restore(store(rows, kind), kind, rows.shape[1])
