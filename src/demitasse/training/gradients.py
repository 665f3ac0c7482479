"""One step of training: from a prepared batch to gradients, over one process or several.

The objective always sees the embeddings of all processes: each contributes its own, with gradients, and receives the
others' without. Since every process computes the whole loss, and gradients are averaged over processes, the loss is
multiplied by their number: the result is the gradient that one process would have had from the joined batch.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from demitasse.objectives.pair_losses import PairLoss
from demitasse.objectives.protocol import Objective, Step
from demitasse.training.batches import Prepared
from demitasse.training.teacher_vectors import TeacherVectors
from demitasse.training.text_bank import TextBank


@dataclass(frozen=True)
class Teaching:
    """What a stage teaches: the objective, the pair loss, and the vectors of teachers if there are any."""

    objective: Objective
    loss: PairLoss
    teacher: TeacherVectors | None = None
    anchor: TeacherVectors | None = None
    bank: TextBank | None = None  # has both, for data whose texts are numbers


@dataclass(frozen=True)
class Descent:
    """From prepared batches to gradients in the model's parameters."""

    accelerator: Accelerator
    model: nn.Module
    teaching: Teaching

    def add(self, prepared: Prepared, step: Step, seed: int, *, share: float = 1.0, last: bool = True) -> Tensor:
        """Add the gradients of `share` times the loss of a batch, and return the loss.

        With several chunks (GradCache) the model runs over each and keeps only its embeddings, the objective is
        computed over all of them, and each chunk is run again to carry the gradient of its embeddings to the weights.
        """
        count, columns = len(prepared.chunks), len(prepared.own.columns)
        if count == 1:
            with self._quiet(last=last):
                loss = self.loss_of(prepared, step, by_column(self._run(prepared, 0, seed), columns))
                self._backward(share * loss)
            return loss.detach()
        with torch.no_grad():
            parts = [by_column(self._run(prepared, number, seed), columns) for number in range(count)]
        leaves = [part.requires_grad_() for part in parts]
        loss = self.loss_of(prepared, step, torch.cat(leaves, dim=2))
        loss.backward()  # type: ignore[no-untyped-call] # this one does not reach the model
        for number, leaf in enumerate(leaves):
            with self._quiet(last=last and number == count - 1):
                embeddings = by_column(self._run(prepared, number, seed), columns)
                assert leaf.grad is not None
                self._backward(share * (embeddings * leaf.grad).sum())
        return loss.detach()

    def loss_of(self, prepared: Prepared, step: Step, embeddings: Tensor) -> Tensor:
        """The objective of this process's `embeddings` (K, C, b, D) among those of all processes."""
        everybody = gathered(self.accelerator, embeddings.float())
        scores = prepared.whole.scores
        if self.teaching.bank is not None:  # every process has all of it, so nothing is exchanged
            bank = self.teaching.bank
            step.teacher, step.anchor = bank.targets(bank.slots(prepared.whole.columns))
        else:
            step.teacher = self._vectors(self.teaching.teacher, prepared, everybody.device)
            step.anchor = self._vectors(self.teaching.anchor, prepared, everybody.device)
        # An objective that uses random numbers (a randomised SVD, say) must use the same in every process.
        torch.manual_seed(step.random.getrandbits(48))
        labels = None if scores is None else torch.tensor(scores, device=everybody.device)
        return self.teaching.objective(list(everybody), partial(self.teaching.loss, scores=labels), step)

    def _run(self, prepared: Prepared, number: int, seed: int) -> Tensor:
        # Dropout depends on seed and chunk alone, so the second pass over a chunk drops what the first one dropped.
        torch.manual_seed(seed + number)
        embeddings: Tensor = self.model(prepared.chunks[number], prepared.prompt_tokens[number])
        return embeddings

    def _backward(self, loss: Tensor) -> None:
        self.accelerator.backward(self.accelerator.num_processes * loss)

    def _vectors(self, source: TeacherVectors | None, prepared: Prepared, device: torch.device) -> Tensor | None:
        if source is None:
            return None
        own = torch.from_numpy(source.columns(prepared.own)).to(device, non_blocking=True)
        return gathered(self.accelerator, own.float())

    def _quiet(self, *, last: bool) -> Any:
        """Exchange gradients between processes only in the last backward pass of a step."""
        return nullcontext() if last else self.accelerator.no_sync(self.model)


def by_column(embeddings: Tensor, columns: int) -> Tensor:
    """(K, C * b, D) as (K, C, b, D)."""
    return embeddings.reshape(len(embeddings), columns, -1, embeddings.shape[-1])


def gathered(accelerator: Accelerator, vectors: Tensor) -> Tensor:
    """`vectors` (..., b, D) of all processes in order (..., B, D), this one's with their gradient."""
    if accelerator.num_processes == 1:
        return vectors
    everybody: list[Tensor] = list(accelerator.gather(vectors.detach().unsqueeze(0)))
    everybody[accelerator.process_index] = vectors
    return torch.cat(everybody, dim=-2)


def step_seeds(seed: int, stage: int, step: int, rank: int) -> tuple[Random, int]:
    """A step's random numbers, the same in all processes, and the seed of its dropout, different in each.

    Both depend on nothing else, so a resumed run samples what it would have sampled.
    """
    common = Random(f"{seed} {stage} {step}")  # noqa: S311 - which layers to train is not a secret
    own = Random(f"{seed} {stage} {step} {rank}")  # noqa: S311
    return common, own.getrandbits(48)
