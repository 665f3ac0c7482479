"""What ESE's learn-to-compress asks the first k dims of a state to become.

`Published` is what the authors' library computes: a truncated SVD of the row-softmaxed Gram matrix of the dims. Its
columns have arbitrary signs, change from batch to batch, and a scale that follows the states'
(docs/objectives.md).

`Principal` is the same wish, well posed: the projection of unit-length, centred states on the principal axes of a
running covariance, in fp32, each axis with a fixed sign. It moves slowly and means the same in every batch.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from demitasse.errors import DataError
from demitasse.objectives.losses import feature_divergence


class Compress(Protocol):
    """How far the first k dims of states are from a compression of all of them."""

    def __call__(self, states: Tensor, dims: int, memory: MutableMapping[str, Tensor], name: str) -> Tensor:
        """The loss for `states` (M, D); what is kept between batches is kept in `memory` under `name`."""


@dataclass(frozen=True)
class Published:
    """The target of angle-emb 0.4.0 to 0.6.1, with its quirks: KL times the temperature, no KL at 0."""

    temperature: float = 1.0

    def __call__(self, states: Tensor, dims: int, memory: MutableMapping[str, Tensor], name: str) -> Tensor:
        """MSE and KL to the target, which is not trained."""
        return alignment(states[:, :dims], published_target(states, dims), self.temperature)


@dataclass(frozen=True)
class Principal:
    """Principal axes of a running covariance. `momentum` is the share of the past in it, `weight` that of the loss."""

    momentum: float = 0.95
    temperature: float = 1.0
    weight: float = 0.1  # at 1 it outweighs the pair loss, and the last layer pays for it

    def __post_init__(self) -> None:
        if not 0 <= self.momentum < 1:
            raise DataError(f"momentum must be at least 0 and below 1, not {self.momentum}")

    def __call__(self, states: Tensor, dims: int, memory: MutableMapping[str, Tensor], name: str) -> Tensor:
        """MSE, relative to the target's own square, and KL."""
        rows = functional.normalize(states.float(), dim=-1)
        axes, mean = self._axes(rows.detach(), dims, memory, name)
        target = (rows.detach() - mean) @ axes
        kept = rows[:, :dims] - mean[:dims]
        loss = (kept - target).square().sum(-1).mean() / target.square().sum(-1).mean().clamp(min=1e-12)
        if self.temperature > 0:
            scale = rows.shape[-1] ** 0.5  # a unit row has tiny numbers, whose softmax would be flat
            loss = loss + self.temperature * feature_divergence(scale * target, scale * kept, self.temperature)
        return self.weight * loss

    def _axes(self, rows: Tensor, dims: int, memory: MutableMapping[str, Tensor], name: str) -> tuple[Tensor, Tensor]:
        mean, square = rows.mean(0), rows.T @ rows / len(rows)
        for key, now in ((f"{name}/mean", mean), (f"{name}/square", square)):
            before = memory.get(key)
            memory[key] = now if before is None else self.momentum * before + (1 - self.momentum) * now
        mean, square = memory[f"{name}/mean"], memory[f"{name}/square"]
        _, vectors = torch.linalg.eigh(square - torch.outer(mean, mean))
        axes = vectors[:, -dims:].flip(-1)  # the widest spread first
        # An axis and its opposite are both right: the one whose largest entry is positive is taken.
        largest = axes.gather(0, axes.abs().argmax(0, keepdim=True))
        return axes * largest.sign(), mean


def published_target(states: Tensor, dims: int) -> Tensor:
    """X U S with U, S from `svd_lowrank` of softmax(X'X / sqrt(D)), as released; in fp32 and without gradient."""
    with torch.no_grad(), torch.autocast(states.device.type, enabled=False):
        rows = states.float()
        weights = (rows.T @ rows / rows.shape[-1] ** 0.5).softmax(-1)
        left, values, _ = torch.svd_lowrank(weights, q=dims)
        return rows @ left @ values.diag()


def alignment(kept: Tensor, target: Tensor, temperature: float) -> Tensor:
    """Mean squared difference and, for a temperature above 0, that times the KL between softmaxes over the dims."""
    loss = functional.mse_loss(kept, target)
    if temperature > 0:
        loss = loss + temperature * feature_divergence(target, kept, temperature)
    return loss
