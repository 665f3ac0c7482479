"""Muon: steps of equal size in every direction of a weight matrix.

The gradient of a layer's matrix is mostly of low rank, and so are the steps that AdamW makes of it. Muon replaces it
by the nearest orthogonal matrix (Jordan et al. 2024, kellerjordan.github.io/posts/muon), which also trains directions
that seldom get a gradient. Steps are scaled like AdamW's (Liu et al. 2025, arXiv 2502.16982), so rates carry over.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the polynomial: singular values between 0.7 and 1.2 after five rounds
_ROUNDS = 5
_ADAM_SIZE = 0.2  # root mean square of the numbers in a step of AdamW


class Muon(Optimizer):
    """An optimizer for matrices: momentum, made orthogonal."""

    def __init__(self, groups: Iterable[dict[str, Any]], momentum: float = 0.95) -> None:
        super().__init__(groups, {"lr": 1e-3, "weight_decay": 0.0, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Move every matrix that has a gradient."""
        assert closure is None
        for group in self.param_groups:
            moved: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for matrix in group["params"]:
                if matrix.grad is not None:
                    moved[matrix.shape].append(matrix)
            for matrices in moved.values():
                ahead = torch.stack(self._ahead(matrices, group["momentum"]))
                size = _ADAM_SIZE * max(ahead.shape[-2:]) ** 0.5
                directions = orthogonal(ahead).to(matrices[0].dtype).contiguous().unbind()
                # Lists of matrices in one call each: a step waits for the host more than for the GPU.
                torch._foreach_mul_(matrices, 1 - group["lr"] * group["weight_decay"])
                torch._foreach_add_(matrices, directions, alpha=-group["lr"] * size)

    def _ahead(self, matrices: list[Tensor], momentum: float) -> list[Tensor]:
        """For each matrix, the running mean of its gradients plus the newest once more (Nesterov)."""
        gradients = [matrix.grad for matrix in matrices if matrix.grad is not None]
        for matrix, gradient in zip(matrices, gradients, strict=True):
            if not self.state[matrix]:
                self.state[matrix]["mean"] = torch.zeros_like(gradient)
        means: list[Tensor] = [self.state[matrix]["mean"] for matrix in matrices]
        torch._foreach_lerp_(means, gradients, 1 - momentum)
        return list(torch._foreach_lerp(gradients, means, momentum))


def orthogonal(matrices: Tensor) -> Tensor:
    """Matrices (..., R, C) with their singular values brought close to 1 by Newton-Schulz iteration.

    In bf16 on a GPU, which is exact enough; CPUs are slow at bf16, or cannot do it at all.
    """
    wide = matrices if matrices.shape[-2] <= matrices.shape[-1] else matrices.mT
    x: Tensor = wide.to(torch.bfloat16 if wide.is_cuda else torch.float32)
    x = x / (torch.linalg.matrix_norm(x.float(), keepdim=True).to(x.dtype) + 1e-7)
    a, b, c = _COEFFICIENTS
    for _ in range(_ROUNDS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x if wide is matrices else x.mT
