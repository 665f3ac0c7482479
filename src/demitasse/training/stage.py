"""A stage of training: a model, its optimizers and its batches, moved one step at a time.

It knows nothing of folders, dev sets and signals: `run.py` decides what happens between steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor

from demitasse.data.sampler import Sampler
from demitasse.objectives.protocol import Objective, Step
from demitasse.torch_model.torch_encoder import TorchEncoder
from demitasse.training.batches import FromBank, Loader, Prepared, Share, Tokenizing, shortened
from demitasse.training.gradients import Descent, Teaching, step_seeds
from demitasse.training.lora import adapted, merged
from demitasse.training.muon import Muon
from demitasse.training.options import TrainOptions
from demitasse.training.student import Student

_SEED_STRIDE = 1 << 20  # between the dropout seeds of the batches of one step


@dataclass(frozen=True)
class Goal:
    """What a stage trains, for how many steps, and how."""

    number: int  # of the stage, from 0
    objective: Objective
    steps: int
    rate: float
    dropout: bool
    optimizer: str = "adamw"
    plain_texts: bool = False  # whether it learns from texts without a partner, too
    matrix_rate: float | None = None  # of the layers' matrices; default: `rate`
    embedding_rate: float | None = None  # of the token embeddings; default: `rate`


class LateNumber:
    """A number that a GPU may still be computing, on its way to the host; only reading it waits for that.

    Reading it where it is would wait for everything that the GPU was given since.
    """

    def __init__(self, tensor: Tensor) -> None:
        self._copy = tensor.detach().to("cpu", non_blocking=tensor.is_cuda)
        self._done = torch.cuda.Event() if tensor.is_cuda else None  # type: ignore[no-untyped-call]
        if self._done is not None:
            self._done.record(torch.cuda.current_stream(tensor.device))

    def __float__(self) -> float:
        if self._done is not None:
            self._done.synchronize()
        return float(self._copy)


@dataclass(frozen=True)
class Done:
    """A step that was made."""

    step: int  # from 0
    batch: Prepared  # its last one
    loss: LateNumber


class Stage:
    """The model of one stage while it is trained."""

    def __init__(
        self,
        accelerator: Accelerator,
        options: TrainOptions,
        goal: Goal,
        start: TorchEncoder,
        sampler: Sampler,
        teaching: Teaching,
    ) -> None:
        self._accelerator, self._options, self._goal, self._sampler = accelerator, options, goal, sampler
        objective = goal.objective
        self._student = Student(
            start, last_only=objective.last_only, raw=objective.raw, recompute=options.checkpointing
        )
        if options.lora:
            adapted(self._student, options.lora, options.seed)
        self._student.to(accelerator.device)
        share = Share(accelerator.process_index, accelerator.num_processes)
        self._loader = Loader(_read(start, options, teaching), options.micro_batch, share)
        embedding_rate = options.embedding_rate or goal.embedding_rate or goal.rate
        groups = self._student.groups(goal.rate, embedding_rate, options.exit_rate, options.decay, goal.matrix_rate)
        self._model, *self._optimizers = accelerator.prepare(
            self._student, *_optimizers(goal.optimizer, groups, fused=accelerator.device.type == "cuda")
        )
        self._descent = Descent(accelerator, self._model, teaching)
        self._memory: dict[str, Tensor] = {}

    @contextmanager
    def steps(self, begin: int) -> Iterator[Iterator[Done]]:
        """The steps from number `begin` on, each made when it is asked for."""
        with self._loader.batches(self._sampler) as batches:
            yield (self._step(step, batches) for step in range(begin, self._goal.steps))

    def _step(self, step: int, batches: Iterator[Prepared]) -> Done:
        options, accelerator = self._options, self._accelerator
        self._student.train(self._goal.dropout)
        share = options.rate_at(step, self._goal.steps)
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                group["lr"] = share * group["base"]
        random, seed = step_seeds(options.seed, self._goal.number, step, accelerator.process_index)
        losses = []
        for number in range(options.accumulate):
            batch = next(batches)
            last = number == options.accumulate - 1
            seed += _SEED_STRIDE
            known = Step(random, self._memory)
            losses.append(self._descent.add(batch, known, seed, share=1 / options.accumulate, last=last))
        accelerator.clip_grad_norm_(self._model.parameters(), options.clip)
        for optimizer in self._optimizers:
            optimizer.step()
            optimizer.zero_grad()
        return Done(step, batch, LateNumber(torch.stack(losses).mean()))

    def encoder(self) -> TorchEncoder:
        """The encoder as it is now; it may share weights with the model in training."""
        self._student.eval()
        return merged(self._student) if self._options.lora else self._student.encoder()

    def state(self, batch: Prepared) -> dict[str, Any]:
        """Everything needed to go on after the step that ended with `batch`."""
        scaler = self._accelerator.scaler
        return {
            "student": self._student.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self._optimizers],
            "sampler": batch.after,
            "memory": dict(self._memory),
            "scaler": None if scaler is None else scaler.state_dict(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to what `state` returned."""
        self._student.load_state_dict(state["student"])
        for optimizer, saved in zip(self._optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self._sampler.restore(state["sampler"])
        self._memory = {name: tensor.to(self._accelerator.device) for name, tensor in state["memory"].items()}
        if self._accelerator.scaler is not None:
            self._accelerator.scaler.load_state_dict(state["scaler"])


def _read(start: TorchEncoder, options: TrainOptions, teaching: Teaching) -> Tokenizing | FromBank:
    if teaching.bank is not None:
        return FromBank(teaching.bank)
    reader = shortened(start.reader, options.max_tokens)
    return Tokenizing(reader, options.prompts, pool_prompt=start.pooling.include_prompt)


def _optimizers(name: str, groups: list[dict[str, Any]], *, fused: bool) -> list[torch.optim.Optimizer]:
    """AdamW for everything, or Muon for the matrices of the layers and AdamW for the rest."""
    if name == "adamw":
        return [torch.optim.AdamW(groups, fused=fused)]
    outer, inner = ([group for group in groups if group["inner"] is wanted] for wanted in (False, True))
    return [torch.optim.AdamW(outer, fused=fused), Muon(inner)]
