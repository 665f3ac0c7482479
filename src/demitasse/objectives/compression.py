"""ESE's learn-to-compress: what the first k dims of a state should become.

`Published` is what the authors' library computes: a truncated SVD of the row-softmaxed Gram matrix of the dims. Its
columns have arbitrary signs, change from batch to batch, and grow with the states (docs/objectives.md).

`Principal` has the same goal, well posed: the projection of unit-length, centred states on the principal axes of a
running covariance, in fp32, each axis with a fixed sign. It changes slowly and means the same in every batch.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from demitasse.arguments import check_fields
from demitasse.errors import DataError
from demitasse.objectives.losses import feature_divergence


class Compress(Protocol):
    """How far the first k dims of states are from a compression of all of them."""

    def __call__(self, states: Tensor, dims: int, memory: MutableMapping[str, Tensor], name: str) -> Tensor:
        """The loss for `states` (M, D); anything remembered between batches is in `memory` under `name`."""


@dataclass(frozen=True)
class Published:
    """The target of angle-emb 0.4.0 to 0.6.1, quirks included: the KL is scaled by the temperature and skipped at 0."""

    temperature: float = 1.0

    def __post_init__(self) -> None:
        check_fields(self)

    def __call__(self, states: Tensor, dims: int, memory: MutableMapping[str, Tensor], name: str) -> Tensor:
        """MSE and KL to the target, which gets no gradient."""
        return alignment(states[:, :dims], published_target(states, dims), self.temperature)


@dataclass(frozen=True)
class Principal:
    """Principal axes of a running covariance; `momentum` is the share of the past in it, `weight` scales the loss."""

    momentum: float = 0.95
    temperature: float = 1.0
    weight: float = 0.1  # at 1 it outweighs the pair loss, which hurts the last layer

    def __post_init__(self) -> None:
        check_fields(self)
        if not 0 <= self.momentum < 1:
            raise DataError(f"momentum must be at least 0 and below 1, not {self.momentum}")

    def __call__(self, states: Tensor, dims: int, memory: MutableMapping[str, Tensor], name: str) -> Tensor:
        """MSE, relative to the mean square of the target, and KL."""
        units = functional.normalize(states.float(), dim=-1)
        axes, mean = self._axes(units.detach(), dims, memory, name)
        target = (units.detach() - mean) @ axes
        kept = units[:, :dims] - mean[:dims]
        loss = (kept - target).square().sum(-1).mean() / target.square().sum(-1).mean().clamp(min=1e-12)
        if self.temperature > 0:
            scale = units.shape[-1] ** 0.5  # unit vectors have small entries, whose softmax would be flat
            loss = loss + self.temperature * feature_divergence(scale * target, scale * kept, self.temperature)
        return self.weight * loss

    def _axes(self, units: Tensor, dims: int, memory: MutableMapping[str, Tensor], name: str) -> tuple[Tensor, Tensor]:
        """The `dims` principal axes (D, dims) and the mean (D,), after `units` (M, D) were added to the memory."""
        mean, square = units.mean(0), units.T @ units / len(units)
        for key, now in ((f"{name}/mean", mean), (f"{name}/square", square)):
            before = memory.get(key)
            memory[key] = now if before is None else self.momentum * before + (1 - self.momentum) * now
        mean, square = memory[f"{name}/mean"], memory[f"{name}/square"]
        _, vectors = torch.linalg.eigh(square - torch.outer(mean, mean))
        axes = vectors[:, -dims:].flip(-1)  # the largest variance first
        # An axis and its opposite are equally right: take the one whose largest entry is positive.
        largest = axes.gather(0, axes.abs().argmax(0, keepdim=True))
        return axes * largest.sign(), mean


def published_target(states: Tensor, dims: int) -> Tensor:
    """X U S with U, S from `svd_lowrank` of softmax(X'X / sqrt(D)), as released, in fp32 and without gradient."""
    with torch.no_grad(), torch.autocast(states.device.type, enabled=False):
        states = states.float()
        weights = (states.T @ states / states.shape[-1] ** 0.5).softmax(-1)
        left, values, _ = torch.svd_lowrank(weights, q=dims)
        return states @ left @ values.diag()


def alignment(kept: Tensor, target: Tensor, temperature: float) -> Tensor:
    """MSE and, for a temperature above 0, the temperature times the KL between softmaxes over the dims."""
    loss = functional.mse_loss(kept, target)
    if temperature > 0:
        loss = loss + temperature * feature_divergence(target, kept, temperature)
    return loss
