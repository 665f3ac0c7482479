"""How `Aligned` is trained: teachers' vectors, the space they make, exits into it in closed form, then all steps.

Everything that a step needs to know of a text is on the device before the first one (text_bank.py). What was made
before the first step is kept in the run's folder, so that a resumed run goes on with the very same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from demitasse.data.pairs import Pairs
from demitasse.encoding.loading import folder_of
from demitasse.encoding.teacher_space import SpaceTeacher, TeacherSpace
from demitasse.encoding.vectors import Vectors, unit_length
from demitasse.errors import DataError, FolderError
from demitasse.host.progress import progress_bar
from demitasse.objectives.aligned import Aligned
from demitasse.torch_model.torch_encoder import TorchEncoder
from demitasse.training import refine_exits as refining
from demitasse.training.batches import shortened
from demitasse.training.fit_exits import LEAST_SENTENCES, WINDOW
from demitasse.training.fit_space import Windows, fit_space, fit_space_exits, mean_of
from demitasse.training.gradients import Teaching
from demitasse.training.numbered_texts import NumberedTexts, Numbers, number_texts
from demitasse.training.options import TrainOptions
from demitasse.training.run import Run
from demitasse.training.run_folder import START, TEACHERS
from demitasse.training.stage import Goal
from demitasse.training.teachers import find_teacher, joined_vectors, same_teacher, write_vectors
from demitasse.training.text_bank import TextBank, empty_vectors, read_tokens

EMBEDDING_RATE = 5e-4  # of the token embeddings, which see few gradients each
FITTED_TEXTS = 20_000  # on which the space and the exits are fitted
_PASSES = 4  # over the data, at most, to draw them


@dataclass(frozen=True)
class AlignedRecipe:
    """One stage, on plain texts too, from exits that are fitted into the teachers' space."""

    objective: Aligned

    def goals(self, steps: int, options: TrainOptions, *, on_gpu: bool) -> list[Goal]:
        """One stage, at rates of its own and without dropout: a student that is told the answer needs none."""
        # On a CPU, Muon's matrix products would take as long as the rest of a small batch.
        optimizer = options.optimizer or ("muon" if on_gpu else "adamw")
        return [
            Goal(
                0,
                self.objective,
                steps,
                self.objective.rate,
                dropout=False,
                optimizer=optimizer,
                plain_texts=True,
                matrix_rate=self.objective.matrix_rate if optimizer == "muon" else None,
                embedding_rate=EMBEDDING_RATE,
            )
        ]

    def check(self, data: Pairs, goals: list[Goal]) -> None:
        """Refuse an objective without teachers, and data with too few texts to fit exits on."""
        if not self.objective.teachers:
            raise DataError(
                "Aligned was given no teachers; name folders or hub names: Aligned(teachers=('owner/model',)), or "
                "aligned:teachers=A+B on the command line"
            )
        for name in self.objective.teachers:
            folder_of(name)  # one that is not there should not wait for the first step
        texts = sum(1 for _ in data.texts(LEAST_SENTENCES))
        if texts < LEAST_SENTENCES:
            raise DataError(
                f"the data has {texts} different texts, and Aligned fits exits on at least {LEAST_SENTENCES}; give "
                "more rows"
            )

    def train(self, run: Run, encoder: TorchEncoder) -> TorchEncoder:
        """`encoder` after all steps."""
        (goal,) = run.goals
        options = run.options
        texts = run.numbered = number_texts(run.data, len(options.prompts))
        sample = _sample(run, goal)
        numbers = np.union1d(_drawn(run, goal, texts), sample)
        folder = Path(options.vectors) if options.vectors else run.folder.path / TEACHERS
        reader = shortened(encoder.reader, options.max_tokens)
        if run.accelerator.is_main_process:
            self._prepare(run, replace(encoder, reader=reader), texts, numbers, sample, folder)
        run.accelerator.wait_for_everyone()
        start = run.load(START, encoder.device)
        space = _space_of(start)
        tokens = read_tokens(texts, numbers, reader, options.prompts, pool_prompt=encoder.pooling.include_prompt)
        vectors = empty_vectors((len(numbers), space.weight.shape[1]), encoder.device, run.folder.path)
        joined_vectors(folder, space.teachers, texts, numbers, vectors)
        mean = self._mean(folder, space, texts, sample)
        bank = TextBank(tokens, vectors, space, mean, encoder.device)
        # The result truncates where the model does, not where this run trains.
        start = replace(start, reader=encoder.reader)
        return run.train(goal, start, Teaching(self.objective, options.loss, bank=bank))

    def _prepare(
        self, run: Run, encoder: TorchEncoder, texts: NumberedTexts, numbers: Numbers, sample: Numbers, folder: Path
    ) -> None:
        """Make what is not there yet: the teachers' vectors, and the model to start from."""
        ready, names, device = run.folder.path / START, self.objective.teachers, encoder.device
        if ready.is_dir():
            teachers = _space_of(run.load(START, device)).teachers
        else:
            shares = zip(names, self.objective.shares, strict=True)
            teachers = tuple(find_teacher(name, share, prompts=self.objective.prompts) for name, share in shares)
        for name, teacher in zip(names, teachers, strict=True):
            write_vectors(folder, teacher, texts, numbers, partial(same_teacher, name, teacher, device))
        if not ready.is_dir():
            self._start(run, encoder, texts, sample, teachers, folder).save(ready, force=True)

    def _start(
        self,
        run: Run,
        encoder: TorchEncoder,
        texts: NumberedTexts,
        sample: Numbers,
        teachers: tuple[SpaceTeacher, ...],
        folder: Path,
    ) -> TorchEncoder:
        """`encoder` with exits into the teachers' space."""
        joined = _joined(folder, teachers, texts, sample)
        with progress_bar("ordering dims", refining.ORDER_STEPS * self.objective.order) as advance:
            space = fit_space(
                teachers,
                joined,
                encoder.full.dims,
                centre=self.objective.centre,
                order=self.objective.order,
                seed=run.options.seed,
                device=encoder.device,
                advance=advance,
            )
        exits = fit_space_exits(encoder, _windows(texts, sample, unit_length(space(joined)), run.options.prompts))
        return replace(encoder, dims=space.dims, exits=exits, teacher_space=space)

    def _mean(self, folder: Path, space: TeacherSpace, texts: NumberedTexts, sample: Numbers) -> torch.Tensor | None:
        """What the space takes from the teachers' joined vectors, if it is centred."""
        if not self.objective.centre:
            return None
        return torch.from_numpy(mean_of(_joined(folder, space.teachers, texts, sample)))


def _space_of(start: TorchEncoder) -> TeacherSpace:
    if start.teacher_space is None:
        raise FolderError(f"{start.folder} has no space, so this run did not write it; start again in a new folder")
    return start.teacher_space


def _joined(folder: Path, teachers: tuple[SpaceTeacher, ...], texts: NumberedTexts, numbers: Numbers) -> Vectors:
    room = torch.empty(len(numbers), sum(teacher.dims for teacher in teachers))
    return joined_vectors(folder, teachers, texts, numbers, room).numpy()


def _windows(texts: NumberedTexts, numbers: Numbers, targets: Vectors, prompts: tuple[str, ...]) -> Windows:
    """The texts `numbers` with their vectors in the space, a window at a time, each with one prompt."""
    for which, reading in enumerate(texts.readings):
        own = np.flatnonzero(texts.read_as[numbers] == which)
        name = prompts[reading.prompt] if prompts else None
        for begin in range(0, len(own), WINDOW):
            part = own[begin : begin + WINDOW]
            yield list(texts.texts(numbers[part])), name, targets[part]


def _sample(run: Run, goal: Goal) -> Numbers:
    """Different texts in the mix that the stage draws, in increasing order; with little data, all of them."""
    sampler, found = run.sampler(goal), dict[int, None]()
    drawn = 0
    while len(found) < FITTED_TEXTS and drawn < _PASSES * len(run.data):
        columns = sampler.next().columns
        drawn += len(columns[0])
        for column in columns:
            found.update(dict.fromkeys(column))  # type: ignore[arg-type] # numbers
    return np.sort(np.array([*found][:FITTED_TEXTS], np.int64))


def _drawn(run: Run, goal: Goal, texts: NumberedTexts) -> Numbers:
    """Every text that the stage will draw, in increasing order."""
    batches = goal.steps * run.options.accumulate
    sampler, used = run.sampler(goal), np.zeros(len(texts), bool)
    for number in range(batches):
        # Where every row will have had its turn, drawing on to find that out would only take time.
        if sampler.epoch > 2 and used.mean() > 0.9:
            return np.arange(len(texts))
        used[np.array(sampler.next().columns, np.int64)] = True
        if number % 64 == 0 and used.all():
            break
    return np.flatnonzero(used)
