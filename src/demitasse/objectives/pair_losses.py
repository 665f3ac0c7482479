"""Losses over the columns of a batch: `InfoNCE`, `CoSENT`, `AnglE`.

A batch has columns of texts: anchors and positives; anchors, positives and negatives; or the two sides of scored pairs.
Their vectors come as one tensor (..., C, B, D). A pair loss returns one number for each leading dimension and each of
several widths, so that an objective can compute all depths and dims at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from demitasse.arguments import check_fields
from demitasse.errors import DataError
from demitasse.objectives.losses import (
    angle,
    cosent,
    cosine_pairs,
    infonce,
    infonce_of,
    labelled_infonce,
    nested_cosines,
)


class PairLoss(Protocol):
    """A loss over the columns of a batch."""

    def __call__(self, columns: Tensor, widths: Sequence[int], scores: Tensor | None = None) -> Tensor:
        """The loss of `columns` (..., C, B, D) at the first w dims, for each w of the increasing `widths`: (..., W)."""


@dataclass(frozen=True)
class InfoNCE:
    """Each anchor must find its positive among all positives and negatives of the batch.

    Scored pairs have no negatives: they are ordered by `CoSENT` at the same temperature.

    >>> columns = torch.eye(4).expand(2, 4, 4)
    >>> InfoNCE(temperature=0.2)(columns, [2, 4]).shape
    torch.Size([2])
    """

    temperature: float = 0.05
    both_ways: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.temperature > 0:
            raise DataError(f"temperature must be above 0, not {self.temperature}; 0.05 is common")

    def __call__(self, columns: Tensor, widths: Sequence[int], scores: Tensor | None = None) -> Tensor:
        """The loss at each of `widths`."""
        if scores is not None:
            return CoSENT(1 / self.temperature)(columns, widths, scores)
        anchors, candidates = columns[..., 0, :, :], columns[..., 1:, :, :].flatten(-3, -2)
        return infonce_of(
            nested_cosines(anchors, candidates, widths), temperature=self.temperature, both_ways=self.both_ways
        )


@dataclass(frozen=True)
class CoSENT:
    """Pairs with a higher score must be closer than pairs with a lower one; in triples, positives than negatives."""

    scale: float = 20.0

    def __post_init__(self) -> None:
        check_fields(self)

    def __call__(self, columns: Tensor, widths: Sequence[int], scores: Tensor | None = None) -> Tensor:
        """The loss at each of `widths`."""
        left, right, labels = labelled(columns, scores)
        losses = [cosent(cosine_pairs(left[..., :w], right[..., :w]), labels, scale=self.scale) for w in widths]
        return torch.stack(losses, dim=-1)


@dataclass(frozen=True)
class AnglE:
    """The mix of losses of the AnglE library (0.5.5 and later), with its weights and scales (its tau options).

    Scored pairs: cosine, in-batch and angle terms. Triples: the in-batch term without negatives and the contrast term
    with them, halved, and angle and cosine terms over positives against negatives. Pairs without scores: only
    the in-batch term and, as there, without its weight. The in-batch term uses scores as labels 0 and 1.
    """

    cosine_weight: float = 0.0
    in_batch_weight: float = 1.0
    contrast_weight: float = 1.0
    angle_weight: float = 0.02
    cosine_scale: float = 20.0
    in_batch_scale: float = 20.0
    angle_scale: float = 20.0

    def __post_init__(self) -> None:
        check_fields(self)

    def __call__(self, columns: Tensor, widths: Sequence[int], scores: Tensor | None = None) -> Tensor:
        """The loss at each of `widths`."""
        return torch.stack([self._at(columns[..., :width], scores) for width in widths], dim=-1)

    def _at(self, columns: Tensor, scores: Tensor | None) -> Tensor:
        temperature = 1 / self.in_batch_scale
        first, second = columns[..., 0, :, :], columns[..., 1, :, :]
        if scores is not None:
            total = self.in_batch_weight * labelled_infonce(first, second, scores, temperature=temperature)
        elif columns.shape[-3] == 2:
            return infonce(first, second, temperature=temperature)
        else:
            negatives = columns[..., 2:, :, :].flatten(-3, -2)
            total = self.in_batch_weight / 2 * infonce(first, second, temperature=temperature)
            total = total + self.contrast_weight / 2 * infonce(first, second, negatives, temperature=temperature)
        left, right, labels = labelled(columns, scores)
        if self.angle_weight:
            total = total + self.angle_weight * angle(left, right, labels, scale=self.angle_scale)
        if self.cosine_weight:
            total = total + self.cosine_weight * cosent(cosine_pairs(left, right), labels, scale=self.cosine_scale)
        return total


def labelled(columns: Tensor, scores: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Both sides (..., P, D) and the labels (P,) of all pairs; in triples, 1 for positives and 0 for negatives."""
    if scores is not None:
        return columns[..., 0, :, :], columns[..., 1, :, :], scores
    count, texts = columns.shape[-3] - 1, columns.shape[-2]
    if count < 2:
        raise DataError("pairs without scores or negatives cannot be ordered; use InfoNCE, or add a column")
    right = columns[..., 1:, :, :].flatten(-3, -2)
    left = columns[..., :1, :, :].expand_as(columns[..., 1:, :, :]).flatten(-3, -2)
    return left, right, torch.arange(count * texts, device=columns.device).lt(texts).float()
