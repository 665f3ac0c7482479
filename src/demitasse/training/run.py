"""A training run: its processes, its folder, and what happens between steps.

A `Stage` makes steps; a `Run` logs them, scores the dev set, saves checkpoints, stops when asked, and resumes.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator, DistributedDataParallelKwargs
from accelerate.state import AcceleratorState
from accelerate.tracking import get_available_trackers
from accelerate.utils import LoggerType

from demitasse.data.columns import text_key
from demitasse.data.pairs import Pairs, Source
from demitasse.data.sampler import Sampler
from demitasse.encoding.loading import load
from demitasse.errors import DataError, FolderError, TrainingError, TrainingStopped, reason
from demitasse.evaluation.evaluate import dev_scores
from demitasse.host.progress import progress_bar
from demitasse.objectives.protocol import Objective
from demitasse.torch_model.torch_encoder import TorchEncoder
from demitasse.training.gradients import Teaching
from demitasse.training.numbered_texts import NumberedTexts
from demitasse.training.options import MIXED_PRECISION, TrainOptions
from demitasse.training.run_folder import CHECKPOINT, LAST, MODEL, LossLog, RunFolder, plain
from demitasse.training.stage import Done, Goal, Stage

LATE = 3  # steps that a GPU may be behind
STOP_EVERY = 8  # steps after which several processes ask one another whether to stop


@dataclass
class DevSet:
    """Scored pairs to choose by, and the best score on them so far."""

    pairs: Source
    best: float = float("-inf")
    scores: dict[str, float] = field(default_factory=dict)  # of the best, by cut
    misses: int = 0  # scores in a row that were no better

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps of it."""
        return {"best": self.best, "scores": self.scores, "worse": self.misses}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go back to what `state` returned."""
        self.best, self.scores, self.misses = state["best"], state["scores"], state["worse"]


@dataclass
class Run:
    """What the stages of a run share, and what happens between their steps."""

    accelerator: Accelerator
    folder: RunFolder
    data: Pairs
    objective: Objective
    goals: list[Goal]
    options: TrainOptions
    dev: DevSet | None
    checkpoint: dict[str, Any] | None  # to resume from
    sizes: list[int]  # rows per batch, of each source
    numbered: NumberedTexts | None = None  # the data with numbers in place of texts, for a recipe that wants it
    asked_to_stop: threading.Event = field(default_factory=threading.Event)
    clock: Callable[[], float] = time.monotonic
    saved_at: float = field(default_factory=time.monotonic)  # when the last checkpoint was saved, or the run began

    @classmethod
    def begin(  # noqa: PLR0913
        cls,
        encoder: TorchEncoder,
        data: Pairs,
        objective: Objective,
        goals: list[Goal],
        out: Path,
        options: TrainOptions,
        dev: Pairs | None,
        sizes: list[int],
        *,
        resume: bool,
        force: bool,
    ) -> Run:
        """Start a run in the folder `out`, or resume the one that is there."""
        accelerator = _accelerator(encoder, options, out)
        folder = RunFolder(out, writes=accelerator.is_main_process)
        dev_set = _dev_set(dev)
        description = {
            "options": plain(options),
            "objective": plain(objective),
            "data": data.describe(),
            "dev": dev.describe() if dev is not None else None,
            "base": {"record": dict(encoder.record), "full": str(encoder.full)},
            "steps": sum(goal.steps for goal in goals),
            "processes": accelerator.num_processes,
        }
        folder.begin(description, resume=resume, force=force)
        accelerator.wait_for_everyone()
        if options.trackers:
            accelerator.init_trackers(out.name, config={"objective": str(objective), "options": str(options)})
        checkpoint = folder.saved() if resume else None
        return cls(accelerator, folder, data, objective, goals, options, dev_set, checkpoint, sizes)

    def resumes_after(self, goal: Goal) -> bool:
        """Whether the checkpoint is from a later stage, so that this one is done."""
        stage = 0 if self.checkpoint is None else self.checkpoint.get("stage", 0)
        return isinstance(stage, int) and stage > goal.number

    def sampler(self, goal: Goal) -> Sampler:
        """Where a stage draws its batches from; every call starts over."""
        seed = self.options.seed + goal.number
        data, key = (self.data, text_key) if self.numbered is None else (self.numbered.data, self.numbered.key)
        return Sampler(data, self.sizes, seed, paired_only=not goal.plain_texts, key=key)

    def train(
        self,
        goal: Goal,
        start: TorchEncoder,
        teaching: Teaching,
        finish: Callable[[TorchEncoder], TorchEncoder] = lambda encoder: encoder,
    ) -> TorchEncoder:
        """`start` after all steps of a stage; `finish` makes what is scored and returned of the trained encoder."""
        stage = Stage(self.accelerator, self.options, goal, start, self.sampler(goal), teaching)
        earlier = sum(other.steps for other in self.goals[: goal.number])

        def current() -> TorchEncoder:
            return finish(stage.encoder())

        begin = self._resume(stage)
        log = LossLog(self.folder, earlier, self._track)
        late: deque[Done] = deque()
        label = f"stage {goal.number + 1} of {len(self.goals)}" if len(self.goals) > 1 else "training"
        show = None if self.accelerator.is_main_process else False
        with stage.steps(begin) as steps, progress_bar(label, goal.steps, show=show) as advance:
            advance(begin)
            for done in steps:
                # Read some steps later, when it has been computed: reading it now would keep the GPU waiting.
                if len(late) >= LATE:
                    self._log(log, late.popleft(), earlier)
                late.append(done)
                advance(1, log.note)
                asked = self._is_asked_to_stop(done.step)
                stop = asked or self._is_out_of_patience(goal, earlier, done.step + 1, start, current)
                if stop or self._is_time_to_save(done.step + 1) or done.step + 1 == goal.steps:
                    while late:
                        self._log(log, late.popleft(), earlier)
                    self._save(stage, goal, earlier, done)
                if asked:
                    raise TrainingStopped(
                        f"stopped as asked after step {earlier + done.step + 1}; continue with resume (--resume)"
                    )
                if stop:
                    break
            log.write()
        return self._recorded(current(), start, {} if self.dev is None else self.dev.scores)

    def save_once(self, make: Callable[[], TorchEncoder], name: str, device: torch.device) -> TorchEncoder:
        """What `make` makes, made and saved by one process and loaded by all."""
        if self.accelerator.is_main_process:
            make().save(self.folder.path / name, force=True)  # which keeps what others may have put there
        self.accelerator.wait_for_everyone()
        return self.load(name, device)

    def load(self, name: str, device: torch.device) -> TorchEncoder:
        """An encoder saved in the run's folder."""
        encoder = load(self.folder.path / name, device=str(device))
        assert isinstance(encoder, TorchEncoder)
        return encoder

    def finish(self, encoder: TorchEncoder) -> TorchEncoder:
        """Write the result: the best on the dev set if there is one, else the last."""
        if self.accelerator.is_main_process:
            encoder.save(self.folder.path / (MODEL if self.dev is None else LAST), force=True)
        self.accelerator.wait_for_everyone()
        if self.options.trackers:
            self.accelerator.end_training()
        return self.load(MODEL, encoder.device)

    def _track(self, values: dict[str, float], step: int) -> None:
        if self.options.trackers:
            self.accelerator.log(values, step=step)

    def _log(self, log: LossLog, done: Done, earlier: int) -> None:
        loss = float(done.loss)
        if loss != loss or loss in (float("inf"), float("-inf")):
            batch = done.batch.whole
            rows = ", ".join(str(row) for row, _ in batch.rows[:8])
            raise TrainingError(
                f"the loss became {loss} at step {earlier + done.step + 1} (rows {rows}, … of "
                f"{self.data.sources[batch.source].name}); check these rows or lower the learning rates; nothing was "
                "saved since the last checkpoint"
            )
        log.add(done.step, done.batch.texts * self.options.accumulate, loss)

    def _is_asked_to_stop(self, step: int) -> bool:
        """Whether to stop here: all processes at the same step, or those that went on would wait for the others."""
        if self.accelerator.num_processes == 1:
            return self.asked_to_stop.is_set()
        if (step + 1) % STOP_EVERY:
            return False
        vote = torch.tensor(float(self.asked_to_stop.is_set()), device=self.accelerator.device)
        return bool(self.accelerator.reduce(vote) > 0)

    def _is_out_of_patience(
        self, goal: Goal, earlier: int, step: int, start: TorchEncoder, current: Callable[[], TorchEncoder]
    ) -> bool:
        """Score the dev set when it is time, keep the model if it is the best, and say whether to stop early."""
        every = self.options.dev_every or max(1, goal.steps // 10)
        if self.dev is None or goal is not self.goals[-1] or (step % every and step < goal.steps):
            return False
        misses = torch.zeros((), device=self.accelerator.device)
        if self.accelerator.is_main_process:
            encoder = current()
            scores = dev_scores(encoder, self.dev.pairs, self.objective.cuts(encoder.full), self.options.prompts)
            mean = sum(scores.values()) / len(scores)
            self.folder.log({"step": earlier + step, "dev": round(mean, 3), "scores": scores})
            if mean > self.dev.best:
                self.dev.best, self.dev.scores, self.dev.misses = mean, scores, 0
                self._recorded(encoder, start, scores).save(self.folder.path / MODEL, force=True)
            else:
                self.dev.misses += 1
            misses += self.dev.misses
        misses = self.accelerator.reduce(misses)
        return self.options.patience is not None and int(misses) >= self.options.patience

    def _recorded(self, encoder: TorchEncoder, start: TorchEncoder, scores: dict[str, float]) -> TorchEncoder:
        """`encoder`, ready to be saved, with the record of its training."""
        encoder.backbone.model.eval()  # type: ignore[no-untyped-call]
        record = {
            **start.record,
            "objective": {**plain(self.objective), "options": plain(self.options)},
            "data": self.data.describe(),
            "cuts": [{"cut": cut, "dev": {"spearman": score}} for cut, score in scores.items()],
        }
        return replace(encoder, record=record)

    def _is_time_to_save(self, steps: int) -> bool:
        return steps % self.options.save_every == 0 or self.clock() - self.saved_at >= 60 * self.options.save_minutes

    def _save(self, stage: Stage, goal: Goal, earlier: int, done: Done) -> None:
        where = {"stage": goal.number, "step": done.step + 1, "total": earlier + done.step + 1}
        dev = {} if self.dev is None else self.dev.state()
        self.folder.save({**where, **stage.state(done.batch), **dev})
        self.saved_at = self.clock()

    def _resume(self, stage: Stage) -> int:
        """Restore the checkpoint, if there is one, and return the step to go on from."""
        if self.checkpoint is None:
            return 0
        checkpoint, self.checkpoint = self.checkpoint, None
        try:
            stage.restore(checkpoint)
            if self.dev is not None:
                self.dev.restore(checkpoint)
            return int(checkpoint["step"])
        except Exception as problem:  # a part is missing, or has another shape
            path, why = self.folder.path / CHECKPOINT, reason(problem)
            raise FolderError(f"{path} does not fit this run ({why}); start again in a new folder") from problem


def _accelerator(encoder: TorchEncoder, options: TrainOptions, out: Path) -> Accelerator:
    on_cpu = encoder.device.type == "cpu"
    precision = options.precision or ("bf16" if not on_cpu and torch.cuda.is_bf16_supported() else "fp32")
    known = {str(kind.value) for kind in LoggerType} - {"all"}
    available = {str(getattr(kind, "value", kind)) for kind in get_available_trackers()}
    for name in options.trackers:
        if name not in known:
            raise DataError(f"tracker {name!r} is not known; use one of {', '.join(sorted(known))}")
        if name not in available:
            raise DataError(f"tracker {name!r} is not installed; pip install {name}")
    AcceleratorState._reset_state()  # it remembers the precision of an earlier run in this process
    return Accelerator(
        cpu=on_cpu,
        mixed_precision=MIXED_PRECISION[precision],
        log_with=list(options.trackers) or None,
        project_dir=str(out) if options.trackers else None,
        # An unused pooler, exits of layers that were not sampled: some weights may get no gradient.
        kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)],
    )


def _dev_set(dev: Pairs | None) -> DevSet | None:
    if dev is None:
        return None
    if len(dev.sources) != 1 or dev.sources[0].kind != "scored":
        raise DataError("the dev set must be one source of scored pairs (anchor, positive, score)")
    return DevSet(dev.sources[0])
