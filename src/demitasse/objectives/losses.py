"""Losses: plain functions of tensors.

Vectors of shape (..., B, D) may have leading dimensions, for example one for each depth; there is then a loss for each.
Cosines are computed here, so the length of a vector never matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor
from torch.nn import functional

_NEVER = -1e12  # a score so low that it vanishes in a softmax


def cosines(left: Tensor, right: Tensor) -> Tensor:
    """The cosine of every vector of `left` (..., A, D) with every one of `right` (..., C, D): (..., A, C)."""
    return functional.normalize(left, dim=-1) @ functional.normalize(right, dim=-1).mT


def nested_cosines(left: Tensor, right: Tensor, widths: Sequence[int]) -> Tensor:
    """`cosines` of the first w dims for each w of `widths`, which must increase: (..., W, A, C).

    The dot products and squared lengths of a prefix are those of a shorter prefix plus those of the dims in between, so
    all widths together cost one product at the full width.
    """
    bounds = list(zip([0, *widths[:-1]], widths, strict=True))
    dots = _running_sums([left[..., a:b] @ right[..., a:b].mT for a, b in bounds])
    left_scale, right_scale = (
        _running_sums([side[..., a:b].square().sum(-1, keepdim=True) for a, b in bounds]).clamp(min=1e-24).rsqrt()
        for side in (left, right)
    )
    return dots * left_scale * right_scale.mT


def _running_sums(parts: list[Tensor]) -> Tensor:
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
    """Cross-entropy of finding the positive of each anchor among all positives and negatives of the batch.

    With `both_ways`, the mean of that and of finding the anchor of each positive among all anchors.

    >>> vectors = torch.eye(3)
    >>> round(infonce(vectors, vectors, temperature=0.2).item(), 4)
    0.0134
    """
    candidates = positives if negatives is None else torch.cat([positives, negatives], dim=-2)
    return infonce_of(cosines(anchors, candidates), temperature=temperature, both_ways=both_ways)


def infonce_of(scores: Tensor, *, temperature: float, both_ways: bool = False) -> Tensor:
    """`infonce` given the cosines (..., B, C) of B anchors with C candidates, their positives first."""
    scores = scores / temperature
    count = scores.shape[-2]
    loss = _diagonal_cross_entropy(scores)
    return (loss + _diagonal_cross_entropy(scores[..., :count].mT)) / 2 if both_ways else loss


def _diagonal_cross_entropy(scores: Tensor) -> Tensor:
    """Cross-entropy of choosing candidate i for anchor i."""
    return (scores.logsumexp(-1) - scores.diagonal(dim1=-2, dim2=-1)).mean(-1)


def labelled_infonce(left: Tensor, right: Tensor, labels: Tensor, *, temperature: float = 0.05) -> Tensor:
    """In-batch negatives for labelled pairs, as in AnglE: each side of a pair with label 1 must find the other.

    All vectors of both sides are candidates; pairs with label 0 add nothing but count in the mean. Labels are truncated
    to whole numbers first.
    """
    both = torch.cat([left, right], dim=-2)
    scores = cosines(both, both) / temperature
    scores = scores.masked_fill(torch.eye(scores.shape[-1], dtype=torch.bool, device=scores.device), _NEVER)
    count = left.shape[-2]
    partner = torch.arange(2 * count, device=both.device).roll(count)
    counted = (labels.long() == 1).repeat(2)
    chosen = scores.gather(-1, partner.expand(scores.shape[:-1]).unsqueeze(-1)).squeeze(-1)
    return ((scores.logsumexp(-1) - chosen) * counted).mean(-1)


def cosent(scores: Tensor, labels: Tensor, *, scale: float = 20.0) -> Tensor:
    """CoSENT: a pair with a lower label should score lower than every pair with a higher one.

    `scores` (..., P) are the similarities of pairs, `labels` (P,) how similar they should be; only their order counts.

    >>> labels = torch.tensor([0.0, 1.0])
    >>> [round(cosent(torch.tensor(scores), labels).item(), 3) for scores in ([0.1, 0.9], [0.9, 0.1])]
    [0.0, 16.0]
    """
    scores = scores * scale
    gaps = scores.unsqueeze(-1) - scores.unsqueeze(-2)  # [p, q] = s_p - s_q
    lower = labels.unsqueeze(-1) < labels.unsqueeze(-2)
    gaps = gaps.masked_fill(~lower, _NEVER).flatten(-2)
    # The 1 in log(1 + sum) is an extra term, exp(0).
    return torch.cat([gaps, gaps.new_zeros((*gaps.shape[:-1], 1))], dim=-1).logsumexp(-1)


def cosine_pairs(left: Tensor, right: Tensor) -> Tensor:
    """The cosine of each vector with its counterpart: (..., B)."""
    return functional.cosine_similarity(left, right, dim=-1)


def angle_pairs(left: Tensor, right: Tensor) -> Tensor:
    """AnglE's score of each vector with its counterpart: (..., B).

    A vector is read as D / 2 complex numbers, the real parts first, then the imaginary ones. The score is the absolute
    sum of the real and imaginary parts of the quotient of the two, each of unit length. (Despite the name, no angle is
    computed.) A vector of odd width is padded with a zero.
    """
    if left.shape[-1] % 2:
        left, right = functional.pad(left, (0, 1)), functional.pad(right, (0, 1))
    (a, b), (c, d) = (functional.normalize(side, dim=-1).chunk(2, dim=-1) for side in (left, right))
    return (a * c + b * d + b * c - a * d).sum(-1).abs()


def angle(left: Tensor, right: Tensor, labels: Tensor, *, scale: float = 20.0) -> Tensor:
    """AnglE's own loss: `cosent` over `angle_pairs`."""
    return cosent(angle_pairs(left, right), labels, scale=scale)


def feature_divergence(teacher: Tensor, student: Tensor, temperature: float) -> Tensor:
    """KL between softmaxes over the dims of each vector (M, D), averaged: how 2DMSE and ESE align vectors."""
    log_teacher, log_student = ((vectors / temperature).log_softmax(-1) for vectors in (teacher, student))
    return (log_teacher.exp() * (log_teacher - log_student)).sum(-1).mean(-1)


def similarity_targets(teacher: Tensor, temperature: float) -> Tensor:
    """For each vector of `teacher` (B, D), the softmax of its similarities to all others: (B, B), rows sum to 1."""
    return _without_self(cosines(teacher, teacher) / temperature).softmax(-1)


def similarity_divergence(student: Tensor, others: Tensor, targets: Tensor, temperature: float) -> Tensor:
    """Cross-entropy between `targets` and the softmax of the similarities of `student` and `others` (B, D).

    With `others=student`, a student learns which of its own vectors are close; with the teacher's vectors as `others`,
    it learns to be comparable with the teacher.
    """
    return similarity_divergence_of(cosines(student, others), targets, temperature)


def similarity_divergence_of(scores: Tensor, targets: Tensor, temperature: float) -> Tensor:
    """`similarity_divergence` given the cosines (..., B, B)."""
    scores = _without_self(scores / temperature)
    # Rows of targets sum to 1, so the softmax normalizer moves out of the sum.
    return (scores.logsumexp(-1) - (targets * scores).sum(-1)).mean(-1)


def cosine_distance(left: Tensor, right: Tensor) -> Tensor:
    """One minus the mean cosine of each vector with its counterpart."""
    return 1 - cosine_pairs(left, right).mean(-1)


def _without_self(scores: Tensor) -> Tensor:
    return scores.masked_fill(torch.eye(scores.shape[-1], dtype=torch.bool, device=scores.device), -1e4)
