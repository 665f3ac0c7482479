"""Muon for the layers' matrices, AdamW for the rest, and how their rates rise and fall."""

from __future__ import annotations

import numpy as np
import torch
from student import DEPTH, WIDTH


def orthogonal(x):
    """Newton-Schulz on stacked wide matrices."""
    x = x.to(torch.bfloat16 if x.is_cuda else torch.float32)
    x = x / (torch.linalg.vector_norm(x.float(), dim=(-2, -1), keepdim=True).to(x.dtype) + 1e-7)
    for _ in range(5):
        gram = torch.bmm(x, x.mT)
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=-4.7750, alpha=2.0315), x, beta=3.4445)
    return x


class Muon:
    """For the layers' matrices; q, k and v are three matrices each."""

    def __init__(self, student, momentum, decay):
        self.params = (student.qkv, student.out, student.up, student.down)
        self.momentum, self.decay = momentum, decay
        self.means = [torch.zeros_like(p) for p in self.params]

    @torch.no_grad()
    def step(self, rate):
        ahead = []
        for p, mean in zip(self.params, self.means, strict=True):
            mean.lerp_(p.grad, 1 - self.momentum)
            ahead.append(p.grad.lerp(mean, self.momentum))
        qkv, out, up, down = ahead
        squares = orthogonal(torch.cat([qkv.view(-1, WIDTH, WIDTH), out]))
        longs = orthogonal(torch.cat([up.mT, down]))
        moves = (
            squares[: 3 * DEPTH].reshape(DEPTH, 3 * WIDTH, WIDTH),
            squares[3 * DEPTH :],
            longs[:DEPTH].mT,
            longs[DEPTH:],
        )
        for p, move, size in zip(self.params, moves, (WIDTH, WIDTH, 4 * WIDTH, 4 * WIDTH), strict=True):
            p.mul_(1 - rate * self.decay)
            p.add_(move.to(p.dtype), alpha=-rate * 0.2 * size**0.5)


def adam_groups(student, options):
    words = [student.words, student.places, student.types]
    flat = [student.norm, student.qkv_b, student.out_b, student.up_b, student.down_b, student.norms]
    exits = [student.exit_w, student.exit_b]
    return [
        {"params": words, "lr": options.words, "base": options.words, "weight_decay": options.decay},
        {"params": flat, "lr": options.adam, "base": options.adam, "weight_decay": 0.0},
        {"params": exits, "lr": options.exits, "base": options.exits, "weight_decay": 0.0},
    ]


def rate_at(progress, options):
    """What the rates are multiplied by when the share `progress` of the run is over."""
    if progress < options.warmup:
        return max(progress / options.warmup, 0.01)
    if progress < options.hold:
        return 1.0
    start = max(options.warmup, options.hold)
    left = max(0.0, 1 - (progress - start) / max(1e-9, 1 - start))
    return left if options.shape == "linear" else 0.5 - 0.5 * float(np.cos(np.pi * left))
