"""Losses: plain functions of tensors.

Rows of shape (..., B, D) may have leading dimensions (one for each depth, say); a loss is then given for each of them.
Cosines are taken inside, so the length of a row never matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor
from torch.nn import functional

_NEVER = -1e12  # a score so low that nothing is left of it in a softmax


def cosines(rows: Tensor, columns: Tensor) -> Tensor:
    """The cosine between every row (..., A, D) and every column (..., C, D): (..., A, C)."""
    return functional.normalize(rows, dim=-1) @ functional.normalize(columns, dim=-1).mT


def nested_cosines(rows: Tensor, columns: Tensor, widths: Sequence[int]) -> Tensor:
    """`cosines` of the first w dims for each w of `widths`, which must rise: (..., W, A, C).

    Dot products and squared lengths of a prefix are those of a shorter prefix plus those of the dims between the two,
    so all widths together cost one product of the widest.
    """
    bounds = list(zip([0, *widths[:-1]], widths, strict=True))
    dots = _running([rows[..., a:b] @ columns[..., a:b].mT for a, b in bounds])
    left, right = (
        _running([side[..., a:b].square().sum(-1, keepdim=True) for a, b in bounds]).clamp(min=1e-24).rsqrt()
        for side in (rows, columns)
    )
    return dots * left * right.mT


def _running(parts: list[Tensor]) -> Tensor:
    """The sums of the first one, two, … of `parts`, stacked before their last two dimensions."""
    return torch.stack(list(accumulate(parts, torch.add)), dim=-3)


def infonce(
    anchors: Tensor,
    positives: Tensor,
    negatives: Tensor | None = None,
    *,
    temperature: float = 0.05,
    both_ways: bool = False,
) -> Tensor:
    """How hard it is to tell the positive of each anchor from all other positives and all negatives of the batch.

    `both_ways` also asks for the anchor of each positive among all anchors, and takes the mean.

    >>> rows = torch.eye(3)
    >>> round(infonce(rows, rows, temperature=0.2).item(), 4)
    0.0134
    """
    candidates = positives if negatives is None else torch.cat([positives, negatives], dim=-2)
    return infonce_of(cosines(anchors, candidates), temperature=temperature, both_ways=both_ways)


def infonce_of(scores: Tensor, *, temperature: float, both_ways: bool = False) -> Tensor:
    """`infonce` given the cosines (..., B, C) of B anchors with C candidates, their positives first."""
    scores = scores / temperature
    count = scores.shape[-2]
    loss = _nearest(scores)
    return (loss + _nearest(scores[..., :count].mT)) / 2 if both_ways else loss


def _nearest(scores: Tensor) -> Tensor:
    """Cross-entropy of choosing candidate i for row i."""
    return (scores.logsumexp(-1) - scores.diagonal(dim1=-2, dim2=-1)).mean(-1)


def labelled_infonce(left: Tensor, right: Tensor, labels: Tensor, *, temperature: float = 0.05) -> Tensor:
    """In-batch negatives for pairs with a label, as AnglE has them: each side of a pair of label 1 looks for the other.

    All rows of both sides are candidates; pairs of label 0 ask for nothing, but count in the mean. Labels are cut to
    whole numbers first.
    """
    rows = torch.cat([left, right], dim=-2)
    scores = cosines(rows, rows) / temperature
    scores = scores.masked_fill(torch.eye(scores.shape[-1], dtype=torch.bool, device=scores.device), _NEVER)
    count = left.shape[-2]
    partner = torch.arange(2 * count, device=rows.device).roll(count)
    wanted = (labels.long() == 1).repeat(2)
    chosen = scores.gather(-1, partner.expand(scores.shape[:-1]).unsqueeze(-1)).squeeze(-1)
    return ((scores.logsumexp(-1) - chosen) * wanted).mean(-1)


def cosent(scores: Tensor, labels: Tensor, *, scale: float = 20.0) -> Tensor:
    """CoSENT: every pair of a lower label should have a lower score than every pair of a higher one.

    `scores` (..., P) are similarities of pairs and `labels` (P,) say how similar they are; only their order counts.

    >>> labels = torch.tensor([0.0, 1.0])
    >>> [round(cosent(torch.tensor(scores), labels).item(), 3) for scores in ([0.1, 0.9], [0.9, 0.1])]
    [0.0, 16.0]
    """
    scores = scores * scale
    gaps = scores.unsqueeze(-1) - scores.unsqueeze(-2)  # [p, q] = s_p - s_q
    lower = labels.unsqueeze(-1) < labels.unsqueeze(-2)
    gaps = gaps.masked_fill(~lower, _NEVER).flatten(-2)
    # The 1 in log(1 + sum) is one more term exp(0).
    return torch.cat([gaps, gaps.new_zeros((*gaps.shape[:-1], 1))], dim=-1).logsumexp(-1)


def cosine_pairs(left: Tensor, right: Tensor) -> Tensor:
    """The cosine of each row with its counterpart: (..., B)."""
    return functional.cosine_similarity(left, right, dim=-1)


def angle_pairs(left: Tensor, right: Tensor) -> Tensor:
    """AnglE's score of each row with its counterpart: (..., B).

    A row is read as D / 2 complex numbers, its first half the real parts and its second the imaginary ones. The score
    is the absolute sum of real and imaginary parts of the quotient of the two, each of unit length. (No angle is taken,
    despite the name.) A row of odd width is filled up with a zero.
    """
    if left.shape[-1] % 2:
        left, right = functional.pad(left, (0, 1)), functional.pad(right, (0, 1))
    (a, b), (c, d) = (functional.normalize(side, dim=-1).chunk(2, dim=-1) for side in (left, right))
    return (a * c + b * d + b * c - a * d).sum(-1).abs()


def angle(left: Tensor, right: Tensor, labels: Tensor, *, scale: float = 20.0) -> Tensor:
    """AnglE's own loss: `cosent` over `angle_pairs`."""
    return cosent(angle_pairs(left, right), labels, scale=scale)


def feature_divergence(teacher: Tensor, student: Tensor, temperature: float) -> Tensor:
    """KL between softmaxes over the dims of each row (M, D), mean over rows: how 2DMSE and ESE align vectors."""
    log_teacher, log_student = ((rows / temperature).log_softmax(-1) for rows in (teacher, student))
    return (log_teacher.exp() * (log_teacher - log_student)).sum(-1).mean(-1)


def similarity_targets(teacher: Tensor, temperature: float) -> Tensor:
    """For each row of `teacher` (B, D), how its similarity is spread over the other rows: (B, B), rows sum to 1."""
    return _without_self(cosines(teacher, teacher) / temperature).softmax(-1)


def similarity_divergence(rows: Tensor, columns: Tensor, targets: Tensor, temperature: float) -> Tensor:
    """Cross-entropy between `targets` and how similarity between `rows` and `columns` (B, D) is spread.

    With `columns=rows` a student learns who is close to whom among its own vectors; with the teacher's vectors as
    columns, it learns to be compared with the teacher.
    """
    return similarity_divergence_of(cosines(rows, columns), targets, temperature)


def similarity_divergence_of(scores: Tensor, targets: Tensor, temperature: float) -> Tensor:
    """`similarity_divergence` given the cosines (..., B, B)."""
    scores = _without_self(scores / temperature)
    # Rows of targets sum to 1, so the normaliser of the softmax comes out of the sum.
    return (scores.logsumexp(-1) - (targets * scores).sum(-1)).mean(-1)


def cosine_distance(rows: Tensor, others: Tensor) -> Tensor:
    """One minus the mean cosine between each row and its counterpart."""
    return 1 - cosine_pairs(rows, others).mean(-1)


def _without_self(scores: Tensor) -> Tensor:
    return scores.masked_fill(torch.eye(scores.shape[-1], dtype=torch.bool, device=scores.device), -1e4)
