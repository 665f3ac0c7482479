"""Losses: plain functions of tensors."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional


def similarity_targets(teacher: Tensor, temperature: float) -> Tensor:
    """For each row of `teacher` (B, D), how its similarity is spread over the other rows: (B, B), rows sum to 1."""
    rows = functional.normalize(teacher, dim=-1)
    return _without_self(rows @ rows.T / temperature).softmax(-1)


def similarity_divergence(rows: Tensor, columns: Tensor, targets: Tensor, temperature: float) -> Tensor:
    """Cross-entropy between `targets` and how similarity between `rows` and `columns` (B, D) is spread.

    With `columns=rows` a student learns who is close to whom among its own vectors; with the teacher's vectors as
    columns, it learns to be compared with the teacher.
    """
    cosines = functional.normalize(rows, dim=-1) @ functional.normalize(columns, dim=-1).T
    return -(targets * _without_self(cosines / temperature).log_softmax(-1)).sum(-1).mean()


def cosine_distance(rows: Tensor, others: Tensor) -> Tensor:
    """One minus the mean cosine between each row and its counterpart."""
    return 1 - functional.cosine_similarity(rows, others, dim=-1).mean()


def _without_self(scores: Tensor) -> Tensor:
    scores = scores.clone()
    scores.fill_diagonal_(-1e4)
    return scores
