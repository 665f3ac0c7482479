"""Losses of all depths and widths in one pass."""

from __future__ import annotations

import torch
from torch.nn import functional


class Divergence(torch.autograd.Function):
    """Cross-entropy between `targets` (N, N) and the softmax of the cosines of prefixes of `vectors` (K, N, D).

    Summed over depths (times `depth_weights`) and widths (times their weights). The gradient is written out, so that
    no (K, N, N) tensor outlives its width. The diagonal is left out.
    """

    @staticmethod
    def forward(ctx, vectors, targets, depth_weights, widths, width_weights, temperature):  # noqa: PLR0913
        count = vectors.shape[1]
        eye = torch.eye(count, dtype=torch.bool, device=vectors.device)
        total = vectors.new_zeros(())
        gradient = torch.zeros_like(vectors)
        for width, weight in zip(widths, width_weights, strict=True):
            part = vectors[..., :width]
            scale = part.square().sum(-1, keepdim=True).clamp(min=1e-24).rsqrt()
            unit = part * scale
            scores = torch.bmm(unit, unit.mT).div_(temperature).masked_fill_(eye, -1e4)
            peak = scores.logsumexp(-1, keepdim=True)
            cross = (peak.squeeze(-1) - (scores * targets).sum(-1)).mean(-1)  # (K,)
            total = total + weight * (cross * depth_weights).sum()
            if vectors.requires_grad or ctx.needs_input_grad[0]:
                slope = scores.sub_(peak).exp_().sub_(targets)
                slope *= (weight / (temperature * count)) * depth_weights[:, None, None]
                to_unit = torch.bmm(slope, unit) + torch.bmm(slope.mT, unit)
                along = (to_unit * unit).sum(-1, keepdim=True)
                gradient[..., :width] += (to_unit - along * unit) * scale
        ctx.save_for_backward(gradient)
        return total

    @staticmethod
    def backward(ctx, upstream):
        (gradient,) = ctx.saved_tensors
        return gradient * upstream, None, None, None, None, None


def divergence(vectors, targets, depth_weights, widths, width_weights, *, temperature):
    return Divergence.apply(vectors, targets, depth_weights, widths, width_weights, temperature)


def spread(teacher, temperature):
    """For each of `teacher` (N, D), of unit length, the softmax of its cosines to all others, in fp32."""
    scores = (teacher @ teacher.T).float() / temperature
    scores.fill_diagonal_(-1e4)
    return scores.softmax(-1)


def across(vectors, teacher, depth_weights, temperature):
    """Each depth against the teacher's own vectors: cross-entropy of which text is which."""
    t = functional.normalize(teacher, dim=-1)
    targets = ((t @ t.T) / temperature).softmax(-1)
    scores = functional.normalize(vectors, dim=-1) @ t.T / temperature
    return ((scores.logsumexp(-1) - (scores * targets).sum(-1)).mean(-1) * depth_weights).sum()


def away(vectors, teacher, depth_weights):
    """One minus the mean cosine to the teacher's vector, for every depth."""
    return ((1 - functional.cosine_similarity(vectors, teacher[None], dim=-1).mean(-1)) * depth_weights).sum()


def contrast(vectors, teacher_scores, depth_weights, widths, *, temperature, margin):
    """InfoNCE of queries, which come first, with as many passages of their own and whatever follows (hard ones).

    `teacher_scores` are the teacher's cosines of each query with all that is no query.
    A candidate that the teacher holds for as close as the passage itself, up to `margin`, is no negative.
    """
    pairs = len(teacher_scores)
    own = teacher_scores.diagonal().unsqueeze(-1)
    skip = teacher_scores > own - margin
    skip.fill_diagonal_(0)
    total = vectors.new_zeros(())
    for width in widths:
        unit = functional.normalize(vectors[..., :width], dim=-1)
        scores = torch.bmm(unit[:, :pairs], unit[:, pairs:].mT) / temperature
        scores = scores.masked_fill(skip, -1e4)
        cross = (scores.logsumexp(-1) - scores.diagonal(dim1=-2, dim2=-1)).mean(-1)
        total = total + (cross * depth_weights).sum() / len(widths)
    return total
