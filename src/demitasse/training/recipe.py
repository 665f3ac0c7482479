"""The stages that an objective is trained in.

Most objectives take one; that of `Aligned` is in aligned_recipe.py. `Elastic` takes two, which read here from top to
bottom: tune the last layer on pairs, then freeze the result as teacher and distil it into every depth and width.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Protocol

from demitasse.data.pairs import Pairs
from demitasse.data.sampler import TextBatch
from demitasse.encoding.loading import load
from demitasse.errors import DataError
from demitasse.objectives.aligned import Aligned
from demitasse.objectives.elastic import Elastic
from demitasse.objectives.protocol import Objective
from demitasse.objectives.published import Matryoshka
from demitasse.torch_model.torch_encoder import TorchEncoder
from demitasse.training.aligned_recipe import AlignedRecipe
from demitasse.training.batches import shortened
from demitasse.training.blending import blended
from demitasse.training.fit_exits import LEAST_SENTENCES, fit_exits
from demitasse.training.gradients import Teaching
from demitasse.training.options import TrainOptions
from demitasse.training.run import Run
from demitasse.training.run_folder import TUNED
from demitasse.training.stage import Goal
from demitasse.training.teacher_vectors import TeacherVectors, write_vectors

DISTIL_RATES = {"adamw": 3e-4, "muon": 1e-3}
EXIT_TEXTS = 20_000  # texts that the closed form of the exits is fitted on


class Recipe(Protocol):
    """How an objective is trained."""

    def goals(self, steps: int, options: TrainOptions, *, on_gpu: bool) -> list[Goal]:
        """The stages, in their order."""

    def check(self, data: Pairs, goals: list[Goal]) -> None:
        """Refuse data that a stage could not learn from, before any is trained."""

    def train(self, run: Run, encoder: TorchEncoder) -> TorchEncoder:
        """`encoder` after all stages of `run`."""


def recipe_for(objective: Objective) -> Recipe:
    """How `objective` is trained."""
    if isinstance(objective, Aligned):
        return AlignedRecipe(objective)
    return ElasticRecipe(objective) if isinstance(objective, Elastic) else OneStage(objective)


@dataclass(frozen=True)
class OneStage:
    """All steps with one objective, on pairs."""

    objective: Objective

    def goals(self, steps: int, options: TrainOptions, *, on_gpu: bool) -> list[Goal]:
        """One stage."""
        return [Goal(0, self.objective, steps, options.rate, options.dropout, options.optimizer or "adamw")]

    def check(self, data: Pairs, goals: list[Goal]) -> None:
        """Refuse texts without a partner."""
        for source in data.sources:
            if not source.paired:
                raise DataError(
                    f"{source.name} holds plain texts, which only Elastic and Aligned learn from; give pairs, or use "
                    "one of these"
                )

    def train(self, run: Run, encoder: TorchEncoder) -> TorchEncoder:
        """`encoder` after the one stage."""
        (goal,) = run.goals
        return run.train(goal, encoder, Teaching(self.objective, run.options.loss))


@dataclass(frozen=True)
class ElasticRecipe:
    """Tune the last layer, then distil it into every depth and width."""

    objective: Elastic

    def goals(self, steps: int, options: TrainOptions, *, on_gpu: bool) -> list[Goal]:
        """Tuning, on pairs; then distilling, at a rate of its own, on plain texts too."""
        tune_steps = min(round(self.objective.tune * steps), steps - 1)
        tuner = Matryoshka(self.objective.dims)
        tune = Goal(0, tuner, tune_steps, options.rate, options.dropout, options.optimizer or "adamw")
        # On a CPU, Muon's matrix products would take as long as the rest of a small batch.
        optimizer = options.optimizer or ("muon" if on_gpu else "adamw")
        rate = DISTIL_RATES[optimizer] if self.objective.distil_rate is None else self.objective.distil_rate
        # A student that is told its teacher's answer needs no dropout.
        distil = Goal(1, self.objective, steps - tune_steps, rate, dropout=False, optimizer=optimizer, plain_texts=True)
        return [tune, distil]

    def check(self, data: Pairs, goals: list[Goal]) -> None:
        """Refuse data without pairs to tune on, or with too few texts to fit exits on."""
        tune = goals[0]
        if tune.steps and not any(source.paired for source in data.sources):
            raise DataError(
                f"{data.sources[0].name} holds plain texts, and the last layer is tuned on pairs; add pairs, or use "
                "tune=0"
            )
        if self.objective.exits:
            texts = sum(1 for _ in data.texts(LEAST_SENTENCES))
            if texts < LEAST_SENTENCES:
                raise DataError(
                    f"the data has {texts} different texts, and Elastic fits exits on at least {LEAST_SENTENCES}; "
                    "give more rows, or use exits=False"
                )

    def train(self, run: Run, encoder: TorchEncoder) -> TorchEncoder:
        """`encoder` tuned and distilled."""
        tune, distil = run.goals
        if run.resumes_after(tune):
            tuned = run.load(TUNED, encoder.device)
        else:
            after = run.train(tune, encoder, Teaching(tune.objective, run.options.loss))
            # Saved and loaded, so that a resumed run starts the second stage from the very same weights.
            tuned = run.save_once(lambda: self._with_exits(run, encoder, after), TUNED, encoder.device)
        teaching = self._teaching(run, distil, tuned)
        return run.train(distil, tuned, teaching, lambda student: self._mixed_back(tuned, student))

    def _with_exits(self, run: Run, before: TorchEncoder, after: TorchEncoder) -> TorchEncoder:
        """The tuned model, blended with the one before, its exits in closed form: the teacher and the start."""
        tune, distil = run.goals
        tuned = blended(before, after, self.objective.blend) if self.objective.blend < 1 else after
        # Exits that the encoder came with still fit if it was not tuned.
        if self.objective.exits and (tune.steps or not tuned.exits):
            tuned = fit_exits(tuned, _texts(run, distil), refine=False)
        return tuned

    def _teaching(self, run: Run, distil: Goal, tuned: TorchEncoder) -> Teaching:
        """The vectors of the tuned model, and of another teacher if there is one, made once for all texts to come."""
        folder, options = run.folder.path, run.options
        if run.accelerator.is_main_process:
            # The tuned model reads what the student reads; another teacher reads in its own way.
            own = replace(tuned, reader=shortened(tuned.reader, options.max_tokens))
            write_vectors(folder, "anchor", own, run.data, _all_batches(run, distil), options.prompts)
            if self.objective.teacher is not None:
                other = load(self.objective.teacher, device=str(tuned.device))
                write_vectors(folder, "teacher", other, run.data, _all_batches(run, distil))
        run.accelerator.wait_for_everyone()
        anchor = TeacherVectors(folder, "anchor")
        teacher = anchor if self.objective.teacher is None else TeacherVectors(folder, "teacher")
        return Teaching(self.objective, options.loss, teacher, anchor)

    def _mixed_back(self, tuned: TorchEncoder, student: TorchEncoder) -> TorchEncoder:
        """`student` with a share of the tuned weights mixed back into its layers."""
        return blended(tuned, student, 1 - self.objective.back) if self.objective.back else student


def _all_batches(run: Run, goal: Goal) -> Iterator[TextBatch]:
    """Every batch that a stage will draw."""
    sampler = run.sampler(goal)
    return (sampler.next() for _ in range(goal.steps * run.options.accumulate))


def _texts(run: Run, goal: Goal) -> list[str]:
    """Different texts in the mix that a stage draws; with little data, all of them."""
    sampler, texts = run.sampler(goal), dict[str, None]()
    drawn = 0
    while len(texts) < EXIT_TEXTS and drawn < 4 * len(run.data):
        columns = sampler.next().columns
        drawn += len(columns[0])
        texts.update(dict.fromkeys(chain.from_iterable(columns)))
    texts.update(dict.fromkeys(run.data.texts(max(0, EXIT_TEXTS - len(texts)))))
    return list(islice(texts, EXIT_TEXTS))
