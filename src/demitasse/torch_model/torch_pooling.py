"""Pooling on torch: from token states to one state per text.

Only the attention mask says what is padding, so left and right padding give the same states.
"""

from __future__ import annotations

import torch
from torch import Tensor

from demitasse.encoding.pooling import Pooling

_WEIGHTED_SUMS = ("mean", "mean_sqrt_len", "weightedmean")


def pool(pooling: Pooling, hidden: Tensor, mask: Tensor, prompt_tokens: int = 0) -> Tensor:
    """The states (B, len(modes) * D) of token states `hidden` (B, T, D) under `mask` (B, T).

    The first `prompt_tokens` of each text are left out if `pooling` leaves prompts out.

    >>> pool(Pooling(), torch.tensor([[[1.0], [3.0], [9.0]]]), torch.tensor([[1, 1, 0]]))
    tensor([[2.]])
    """
    kept = mask if pooling.include_prompt or not prompt_tokens else without_prompt(mask, prompt_tokens)
    return pool_over(pooling, hidden, kept, mask)


def pool_over(pooling: Pooling, hidden: Tensor, kept: Tensor, mask: Tensor) -> Tensor:
    """The same over the tokens of `kept` (B, T) only, which are some of the real ones."""
    pooled = [_pool(mode, hidden, kept, mask) for mode in pooling.modes]
    return pooled[0] if len(pooled) == 1 else torch.cat(pooled, dim=-1)


def token_weights(pooling: Pooling, kept: Tensor, mask: Tensor) -> Tensor | None:
    """The weight of each token (B, T), where `pooling` is a weighted sum; `None` where it is not."""
    if len(pooling.modes) > 1 or pooling.modes[0] not in _WEIGHTED_SUMS:
        return None
    weights, divisor = _weights(pooling.modes[0], kept.float(), mask)
    return weights / divisor


def without_prompt(mask: Tensor, prompt_tokens: int | Tensor) -> Tensor:
    """`mask` (B, T) less the first `prompt_tokens` real tokens of each text; a text that is all prompt keeps its own.

    `encoding.pooling.without_prompt` is the same for numpy arrays.

    >>> without_prompt(torch.tensor([[1, 1, 1, 0], [0, 0, 1, 1]]), 2).tolist()
    [[0, 0, 1, 0], [0, 0, 1, 1]]
    """
    rest = mask * (mask.cumsum(1) > prompt_tokens)
    return rest.where(rest.any(1, keepdim=True), mask)


def _pool(mode: str, hidden: Tensor, kept: Tensor, mask: Tensor) -> Tensor:
    if mode in ("cls", "last"):
        length = kept.shape[1]
        position = kept.int().argmax(1) if mode == "cls" else length - 1 - kept.flip(1).int().argmax(1)
        return hidden[torch.arange(len(hidden), device=hidden.device), position]
    inside = kept.bool().unsqueeze(-1)  # (B, T, 1)
    if mode == "max":
        return hidden.masked_fill(~inside, float("-inf")).amax(1)
    weights, divisor = _weights(mode, kept.to(hidden.dtype), mask)
    # Sums in fp32, whatever the states are in; zeros at the padding, since 0 * inf would poison the sum.
    total = (hidden.masked_fill(~inside, 0) * weights.unsqueeze(-1)).sum(1, dtype=torch.float32)
    return (total / divisor).to(hidden.dtype)


def _weights(mode: str, kept: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The weight of each token (B, T), in the dtype of `kept`, and what their sum is divided by, in fp32."""
    weights = kept * mask.cumsum(1).to(kept.dtype) if mode == "weightedmean" else kept  # the n-th real token weighs n
    count = weights.sum(1, keepdim=True, dtype=torch.float32).clamp(min=1e-9)
    return weights, count.sqrt() if mode == "mean_sqrt_len" else count
