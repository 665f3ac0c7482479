"""What the quality of a cut is: scores on tasks or, without labels, agreement with the full model. No torch.

Vectors are judged as they are stored: both sides of a task are stored, restored and then scored, so that what a storage
format costs is measured rather than guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from demitasse.cut import Cut
from demitasse.data.text_rows import read_texts
from demitasse.encoding.encoder import Encoder
from demitasse.encoding.vectors import Vectors, restore, store
from demitasse.errors import DataError
from demitasse.evaluation.bootstrap import interval, resampled
from demitasse.evaluation.embedding_cache import encode_layers
from demitasse.evaluation.evaluate import resolve_tasks
from demitasse.evaluation.metrics import display_name
from demitasse.evaluation.score_types import mean_of_groups
from demitasse.evaluation.task_vectors import encode_sides, narrowed, texts_of
from demitasse.evaluation.tasks import PairTask, Scores, Task
from demitasse.host.progress import Advance
from demitasse.planning.agreement import Reference, usable_texts
from demitasse.planning.timing import Text

QualityKey = tuple[str, Cut, str]  # the name of an encoder, a cut of it, and how its vectors are stored


@dataclass(frozen=True)
class Qualities:
    """The quality of every encoder, cut and storage format, and the error of the first encoder's at its full size."""

    values: Mapping[QualityKey, float]
    error: float = 0.0  # half of the 95% interval; 0 without resampling


@dataclass(frozen=True)
class TaskJudge:
    """Quality as scores on tasks: the mean of each group of tasks, then the mean of the groups."""

    tasks: Sequence[Task]

    @property
    def measure(self) -> str:
        """What quality is, in words."""
        groups: dict[str, dict[str, None]] = {}
        for task in self.tasks:
            groups.setdefault(task.group, {})[display_name(task.metric)] = None
        phrases = [f"{' or '.join(metrics)} on {group}" for group, metrics in groups.items()]
        return phrases[0] if len(phrases) == 1 else f"mean of {', '.join(phrases[:-1])} and {phrases[-1]}"

    @property
    def single_texts(self) -> list[Text]:
        """Texts that are encoded one at a time: queries, and all texts of pairs."""
        sides = [side for task in self.tasks for side in task.sides[: 2 if isinstance(task, PairTask) else 1]]
        return [*dict.fromkeys((text, side.prompt_name) for side in sides for text in side.texts)]

    @property
    def batch_texts(self) -> list[Text]:
        """Texts that are encoded in batches: documents, and all texts of pairs."""
        sides = [side for task in self.tasks for side in task.sides[0 if isinstance(task, PairTask) else 1 :]]
        return [*dict.fromkeys((text, side.prompt_name) for side in sides for text in side.texts)]

    @property
    def count(self) -> int:
        """How many texts each encoder encodes."""
        return sum(len(texts) for task in self.tasks for texts in texts_of(task).values())

    def qualities(
        self, encoders: Mapping[str, Encoder], cuts: Sequence[Cut], kinds: Sequence[str], advance: Advance
    ) -> Qualities:
        """The quality of every cut of every encoder for each kind of vectors, from one pass over the texts each."""
        groups = [task.group for task in self.tasks]
        values: dict[QualityKey, float] = {}
        errors = []
        for name, encoder in encoders.items():
            by_task = [self._scores(encoder, task, cuts, kinds, advance) for task in self.tasks]
            for cut, kind in by_task[0]:
                values[name, cut, kind] = float(mean_of_groups(groups, [scores[cut, kind].main for scores in by_task]))
            full = [scores[max(cuts), kinds[0]] for scores in by_task]
            draws = [resampled(task, scores) for task, scores in zip(self.tasks, full, strict=True)]
            low, high = interval(mean_of_groups(groups, draws))
            errors.append((high - low) / 2)
        return Qualities(values, errors[0])

    def _scores(
        self, encoder: Encoder, task: Task, cuts: Sequence[Cut], kinds: Sequence[str], advance: Advance
    ) -> dict[tuple[Cut, str], Scores]:
        layers = {cut.layers for cut in cuts}
        sides = encode_sides(encoder, task, (layers, layers), advance=advance)
        scores = {}
        for cut in cuts:
            vectors = [side(*cut) for side in sides]
            for kind in kinds:
                scores[cut, kind] = task.score(*(as_stored(side, kind) for side in vectors))
        return scores


@dataclass(frozen=True)
class AgreementJudge:
    """Quality as agreement with the first encoder at its full size, on texts without labels."""

    texts: Sequence[str]
    name: str  # of the texts

    @property
    def measure(self) -> str:
        """What quality is, in words."""
        return f"agreement with the full model on {len(self.texts):,} texts of {self.name}"

    @property
    def single_texts(self) -> list[Text]:
        """Texts that are encoded one at a time: all of them."""
        return [(text, None) for text in self.texts]

    batch_texts = single_texts

    @property
    def count(self) -> int:
        """How many texts each encoder encodes."""
        return len(self.texts)

    def qualities(
        self, encoders: Mapping[str, Encoder], cuts: Sequence[Cut], kinds: Sequence[str], advance: Advance
    ) -> Qualities:
        """The quality of every cut of every encoder for each kind of vectors, from one pass over the texts each."""
        values: dict[QualityKey, float] = {}
        reference: Reference | None = None
        for name, encoder in encoders.items():
            layers = {cut.layers for cut in cuts} | {encoder.full.layers}
            by_layers = encode_layers(encoder, self.texts, layers, None, None, advance)
            reference = reference or Reference(by_layers[encoder.full.layers])
            for cut in cuts:
                vectors = narrowed(by_layers[cut.layers], cut.dims)
                for kind in kinds:
                    values[name, cut, kind] = reference.agreement(as_stored(vectors, kind))
        return Qualities(values)


def quality_judge(
    tasks: Sequence[str | Path | Task] | None, texts: Sequence[str] | str | Path | None
) -> TaskJudge | AgreementJudge:
    """Judge by `tasks`, by `texts` (a list, or a file of them), or by the sample if neither is given."""
    if tasks is not None and texts is not None:
        raise DataError("both tasks and texts were given, but quality comes from one of them; leave one out")
    if texts is None:
        return TaskJudge(resolve_tasks(["sample"] if tasks is None else tasks))
    if isinstance(texts, (str, Path)):
        return AgreementJudge(usable_texts([*read_texts(Path(texts))]), Path(texts).name)
    return AgreementJudge(usable_texts(texts), "a list")


def as_stored(vectors: Vectors, kind: str) -> Vectors:
    """Unit vectors as they come back from storage."""
    return vectors if kind == "float32" else restore(store(vectors, kind), kind, vectors.shape[1])
