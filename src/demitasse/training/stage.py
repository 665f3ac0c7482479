"""A stage of training: a model, an optimiser, and the loop."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from demitasse.data.sampler import TextBatch
from demitasse.encoding.loading import load
from demitasse.errors import TrainingError, TrainingStopped
from demitasse.evaluation.evaluate import dev_scores
from demitasse.host.progress import progress_bar
from demitasse.objectives.elastic import Elastic
from demitasse.objectives.protocol import Step
from demitasse.torch_model.torch_encoder import TorchEncoder
from demitasse.training.batches import Loader, Prepared, Share, reading
from demitasse.training.blending import blended
from demitasse.training.gradients import Descent, Teaching, chance
from demitasse.training.lora import adapted, merged
from demitasse.training.muon import Muon
from demitasse.training.run import Goal, Run
from demitasse.training.run_folder import MODEL
from demitasse.training.student import Student
from demitasse.training.teacher_vectors import TeacherVectors, write_vectors

LOG_EVERY = 10
STOP_EVERY = 8  # steps after which several processes ask one another whether to stop


class Stage:
    """One stage: a model, an optimiser, and the loop."""

    def __init__(self, run: Run, number: int, goal: Goal, start: TorchEncoder) -> None:
        self.run, self.number, self.goal, self.start = run, number, goal, start
        options = run.options
        self.before = sum(stage.steps for stage in run.stages[:number])
        asked = goal.objective
        self.student = Student(start, last_only=asked.last_only, raw=asked.raw, recompute=options.checkpointing)
        if options.lora:
            adapted(self.student, options.lora, options.seed)
        self.student.to(run.accelerator.device)
        self.sampler = run.sampler(number)
        reader = reading(start.reader, options.max_tokens)
        share = Share(run.accelerator.process_index, run.accelerator.num_processes)
        pool_prompt = start.pooling.include_prompt
        self.loader = Loader(reader, options.prompts, options.micro_batch, share, pool_prompt=pool_prompt)
        self.memory: dict[str, torch.Tensor] = {}
        groups = self.student.groups(goal.rate, options.embedding_rate or goal.rate, options.exit_rate, options.decay)
        self.model, *self.optimizers = run.accelerator.prepare(
            self.student, *_optimizers(goal.optimizer, groups, fused=run.accelerator.device.type == "cuda")
        )
        self.worse = 0

    def train(self, saved: dict[str, Any] | None, asked_to_stop: threading.Event) -> TorchEncoder:
        """The encoder after all steps of this stage."""
        begin = self._restore(saved) if saved is not None else 0
        descent = Descent(self.run.accelerator, self.model, self._teaching())
        pending: list[tuple[int, Prepared, torch.Tensor]] = []
        log = Log(self.run, self.before)
        label = f"stage {self.number + 1} of {len(self.run.stages)}" if len(self.run.stages) > 1 else "training"
        show = None if self.run.accelerator.is_main_process else False
        with (
            self.loader.batches(self.sampler) as batches,
            progress_bar(label, self.goal.steps, show=show) as advance,
        ):
            advance(begin)
            for step in range(begin, self.goal.steps):
                prepared, loss = self._step(step, batches, descent)
                # Looked at one step later, when it is there: asking now would keep the GPU waiting.
                if pending:
                    log.add(*self._checked(*pending.pop()))
                pending.append((step, prepared, loss))
                advance(1, log.note)
                asked = self._asked_to_stop(step, asked_to_stop)
                stop = asked or self._dev_says_stop(step + 1)
                if stop or (step + 1) % self.run.options.save_every == 0 or step + 1 == self.goal.steps:
                    log.add(*self._checked(*pending.pop()))
                    self._save(step + 1, prepared)
                if asked:
                    raise TrainingStopped(
                        f"stopped after step {self.before + step + 1} as asked; go on with resume (--resume)"
                    )
                if stop:
                    break
            log.write()
        return self._recorded(self._current(), self.run.scores)

    def _step(self, step: int, batches: Iterator[Prepared], descent: Descent) -> tuple[Prepared, torch.Tensor]:
        options, accelerator = self.run.options, self.run.accelerator
        self.student.train(self.goal.dropout)
        share = options.rate_at(step, self.goal.steps)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = share * group["base"]
        random, seed = chance(options.seed, self.number, step, accelerator.process_index)
        losses = []
        for number in range(options.accumulate):
            prepared = next(batches)
            last = number == options.accumulate - 1
            known = Step(random, self.memory)
            seed += 1 << 20
            losses.append(descent.add(prepared, known, seed, share=1 / options.accumulate, last=last))
        accelerator.clip_grad_norm_(self.model.parameters(), options.clip)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        return prepared, torch.stack(losses).mean()

    def _asked_to_stop(self, step: int, asked: threading.Event) -> bool:
        """Whether to stop here: all processes at the same step, or those that went on would wait for the others."""
        accelerator = self.run.accelerator
        if accelerator.num_processes == 1:
            return asked.is_set()
        if (step + 1) % STOP_EVERY:
            return False
        votes = accelerator.reduce(torch.tensor(float(asked.is_set()), device=accelerator.device))
        return bool(votes > 0)

    def _checked(self, step: int, prepared: Prepared, loss: torch.Tensor) -> tuple[int, Prepared, float]:
        value = float(loss)
        if value != value or value in (float("inf"), float("-inf")):
            source = self.run.data.sources[prepared.whole.source].name
            rows = ", ".join(str(row) for row, _ in prepared.whole.rows[:8])
            raise TrainingError(
                f"the loss became {value} at step {self.before + step + 1} (rows {rows}, … of {source}); "
                "look at these rows, or lower the learning rates; nothing was saved since the last checkpoint"
            )
        return step, prepared, value

    def _teaching(self) -> Teaching:
        run, objective = self.run, self.goal.objective
        if not isinstance(objective, Elastic):
            return Teaching(objective, run.options.loss)
        path = run.folder.path
        if run.accelerator.is_main_process:
            other = None if objective.teacher is None else load(objective.teacher, device=str(self.start.device))
            # The model's own vectors are of what the student reads; another teacher reads in its own way.
            own = replace(self.start, reader=reading(self.start.reader, run.options.max_tokens))
            write_vectors(path, "anchor", own, run.data, self._drawn(), run.options.prompts)
            if other is not None:
                write_vectors(path, "teacher", other, run.data, self._drawn())
        run.accelerator.wait_for_everyone()
        anchor = TeacherVectors(path, "anchor")
        teacher = anchor if objective.teacher is None else TeacherVectors(path, "teacher")
        return Teaching(objective, run.options.loss, teacher, anchor)

    def _drawn(self) -> Iterator[TextBatch]:
        """Every batch this stage will draw."""
        sampler = self.run.sampler(self.number)
        for _ in range(self.goal.steps * self.run.options.accumulate):
            yield sampler.next()

    def _dev_says_stop(self, step: int) -> bool:
        """Score the model on the dev set when it is time; keep it if it is the best; whether to stop early."""
        run, options = self.run, self.run.options
        every = options.dev_every or max(1, self.goal.steps // 10)
        if run.dev is None or self.number + 1 < len(run.stages) or (step % every and step < self.goal.steps):
            return False
        worse = torch.zeros((), device=run.accelerator.device)
        if run.accelerator.is_main_process:
            self.student.eval()
            encoder = self._current()
            scores = dev_scores(encoder, run.dev, run.objective.cuts(encoder.full), options.prompts)
            mean = sum(scores.values()) / len(scores)
            run.folder.log({"step": self.before + step, "dev": round(mean, 3), "scores": scores})
            if mean > run.best:
                run.best, run.scores, self.worse = mean, scores, 0
                self._recorded(encoder, scores).save(run.folder.path / MODEL)
            else:
                self.worse += 1
            worse += self.worse
        worse = run.accelerator.reduce(worse)
        return options.patience is not None and int(worse) >= options.patience

    def _current(self) -> TorchEncoder:
        """What this stage would give if it ended here; it may share weights with the student."""
        encoder = merged(self.student) if self.run.options.lora else self.student.encoder()
        objective = self.goal.objective
        back = objective.back if isinstance(objective, Elastic) else 0.0
        return blended(self.start, encoder, 1 - back) if back else encoder

    def _recorded(self, encoder: TorchEncoder, scores: dict[str, float]) -> TorchEncoder:
        """`encoder`, ready to be kept, with what it says about itself."""
        encoder.backbone.model.eval()  # type: ignore[no-untyped-call]
        return replace(encoder, record=self.run.record(self.start, scores))

    def _save(self, step: int, prepared: Prepared) -> None:
        scaler = self.run.accelerator.scaler
        self.run.folder.save(
            {
                "stage": self.number,
                "step": step,
                "total": self.before + step,
                "student": self.student.state_dict(),
                "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
                "sampler": prepared.after,
                "memory": dict(self.memory),
                "best": self.run.best,
                "scores": self.run.scores,
                "worse": self.worse,
                "scaler": None if scaler is None else scaler.state_dict(),
            }
        )

    def _restore(self, saved: dict[str, Any]) -> int:
        self.student.load_state_dict(saved["student"])
        for optimizer, state in zip(self.optimizers, saved["optimizers"], strict=True):
            optimizer.load_state_dict(state)
        self.sampler.restore(saved["sampler"])
        device = self.run.accelerator.device
        self.memory = {name: tensor.to(device) for name, tensor in saved["memory"].items()}
        self.run.best, self.run.scores, self.worse = saved["best"], saved["scores"], saved["worse"]
        if self.run.accelerator.scaler is not None:
            self.run.accelerator.scaler.load_state_dict(saved["scaler"])
        return int(saved["step"])


def _optimizers(name: str, groups: list[dict[str, Any]], *, fused: bool) -> list[torch.optim.Optimizer]:
    """AdamW for all, or Muon for the matrices of the layers and AdamW for the rest."""
    if name == "adamw":
        return [torch.optim.AdamW(groups, fused=fused)]
    parts = [[group for group in groups if group["inner"] is inner] for inner in (False, True)]
    return [torch.optim.AdamW(parts[0], fused=fused), Muon(parts[1])]


class Log:
    """What is written of the loss and the speed, and shown beside the bar."""

    def __init__(self, run: Run, before: int) -> None:
        self._run, self._before = run, before
        self._losses: list[float] = []
        self._texts = self._step = 0
        self._begun = time.monotonic()
        self.note = ""

    def add(self, step: int, prepared: Prepared, loss: float) -> None:
        """Count a step; every few of them make a line."""
        self._losses.append(loss)
        self._texts += prepared.texts * self._run.options.accumulate
        self._step = self._before + step + 1
        if len(self._losses) >= LOG_EVERY or step == 0:
            self.write()

    def write(self) -> None:
        """Write what was counted since the last line."""
        if not self._losses:
            return
        mean, speed = sum(self._losses) / len(self._losses), self._texts / (time.monotonic() - self._begun + 1e-9)
        self._run.folder.log({"step": self._step, "loss": round(mean, 6), "texts_per_second": round(speed)})
        if self._run.options.trackers:
            self._run.accelerator.log({"loss": mean, "texts_per_second": speed}, step=self._step)
        self.note = f"loss {mean:.4f}, {speed:,.0f} texts/s"
        self._losses, self._texts, self._begun = [], 0, time.monotonic()
