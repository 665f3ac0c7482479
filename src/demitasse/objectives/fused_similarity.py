"""`similarity_divergence` at every depth and width at once, with a gradient that is written out.

What autograd would keep and walk through again, (depths x widths) matrices of all pairs of texts, is the larger part of
a step on a GPU. Here each width is one product, one softmax and the products of the gradient, made while the
similarities are still at hand; only the gradient of the vectors is kept. `losses.similarity_divergence_of` says the
same in the plain way, and tests compare the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

_NEVER = -1e4  # a similarity, over the temperature, that vanishes in a softmax


def nested_similarity_divergence(vectors: Tensor, widths: Sequence[int], targets: Tensor, temperature: float) -> Tensor:
    """`similarity_divergence` of the first w dims of `vectors` (K, M, D) among themselves: (K, W), one for each depth
    and each of `widths`.

    `targets` (M, M) come from `similarity_targets`: rows that sum to 1, with nothing on the diagonal.
    """
    units = (functional.normalize(vectors[..., :width], dim=-1) for width in widths)
    losses = [_Divergence.apply(own, targets, temperature) for own in units]  # type: ignore[no-untyped-call]
    return torch.stack(losses, dim=-1)


class _Divergence(torch.autograd.Function):
    """Cross-entropy between targets and the softmax of the cosines of unit-length vectors (K, M, w): (K,)."""

    @staticmethod
    def forward(ctx: Any, units: Tensor, targets: Tensor, temperature: float) -> Tensor:
        count = units.shape[-2]
        # Sum over j of P_ij s_ij, without a matrix of such products: vector i with the targets' mean of all others.
        wanted = targets @ units
        scores = units @ units.mT
        scores.div_(temperature).diagonal(dim1=-2, dim2=-1).fill_(_NEVER)
        chosen = scores.log_softmax(-1)
        # Any other text's score less its log-probability is the log of the softmax's sum.
        normalizer = scores[..., 1:, 0] - chosen[..., 1:, 0]
        first = (scores[..., 0, 1] - chosen[..., 0, 1]).unsqueeze(-1)
        normalizers = torch.cat([first, normalizer], dim=-1)  # (K, M)
        loss = (normalizers - (units * wanted).sum(-1) / temperature).mean(-1)
        del scores
        shares = chosen.exp_()
        gradient = shares @ units + shares.mT @ units - wanted - targets.mT @ units
        ctx.save_for_backward(gradient.div_(temperature * count))
        return loss

    @staticmethod
    def backward(ctx: Any, given: Tensor) -> tuple[Tensor | None, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * given[:, None, None], None, None
