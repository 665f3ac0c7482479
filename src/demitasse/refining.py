"""What the closed form leaves on the table: two short descents on pooled states, without labels or backbone.

`learn_order` turns the embedding space so that its first dims are the ones to keep. A rotation leaves every
full-width cosine as it is; it is one for all depths, so they stay comparable at every width.

`refine_exit` moves an exit from the least-squares solution, which weighs all pairs of texts alike, towards one that
keeps the order among close neighbours (docs/log.md has what each is worth).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from demitasse.exits import Array, Exit
from demitasse.losses import cosine_distance, similarity_divergence, similarity_targets

TEMPERATURE = 0.03
ORDER_STEPS, ORDER_BATCH, ORDER_RATE = 300, 768, 3e-3
REFINE_STEPS, REFINE_BATCH, REFINE_RATE = 150, 768, 2e-3
ANCHOR = 5.0  # weight of the cosine to the full-depth embedding


def learn_order(embeddings: Array, seed: int, advance: Callable[[int], None]) -> Array:
    """A rotation (D, D), to be applied as rows @ rotation, after which prefixes keep most of the similarities."""
    rows = torch.from_numpy(embeddings)
    dims = rows.shape[1]
    widths = [width for width in (2**power for power in range(4, 20)) if width <= dims // 2] or [max(1, dims // 2)]
    # Any skew-symmetric S gives a rotation (I - S)(I + S)^-1 (Cayley), so plain descent never leaves the rotations.
    free = torch.zeros(dims, dims, requires_grad=True)

    def rotation() -> Tensor:
        skew, one = free - free.T, torch.eye(dims)
        turn: Tensor = torch.linalg.solve(one + skew, one - skew)
        return turn

    def loss(batch: Tensor) -> Tensor:
        targets = similarity_targets(rows[batch], TEMPERATURE)
        turned = rows[batch] @ rotation()
        parts = [similarity_divergence(turned[:, :w], turned[:, :w], targets, TEMPERATURE) for w in widths]
        return torch.stack(parts).sum()

    _descend(loss, [free], len(rows), (ORDER_STEPS, ORDER_BATCH, ORDER_RATE), seed, advance)
    return rotation().detach().numpy()


def refine_exit(exit_: Exit, states: Array, targets: Array, seed: int, advance: Callable[[int], None]) -> Exit:
    """`exit_` after a short distillation of the similarities between `targets`, the full-depth embeddings."""
    inputs = torch.nn.functional.normalize(torch.from_numpy(states), dim=-1)
    teachers = torch.from_numpy(targets)
    weight = torch.from_numpy(exit_.weight).clone().requires_grad_()
    bias = torch.from_numpy(exit_.bias).clone().requires_grad_()

    def loss(batch: Tensor) -> Tensor:
        rows, teacher = inputs[batch] @ weight.T + bias, teachers[batch]
        spread = similarity_targets(teacher, TEMPERATURE)
        among = similarity_divergence(rows, rows, spread, TEMPERATURE)
        across = similarity_divergence(rows, teacher, spread, TEMPERATURE)  # keeps depths comparable
        return among + across + ANCHOR * cosine_distance(rows, teacher)

    _descend(loss, [weight, bias], len(inputs), (REFINE_STEPS, REFINE_BATCH, REFINE_RATE), seed, advance)
    return Exit(weight.detach().numpy(), bias.detach().numpy())


def _descend(
    loss: Callable[[Tensor], Tensor],
    parameters: list[Tensor],
    rows: int,
    plan: tuple[int, int, float],
    seed: int,
    advance: Callable[[int], None],
) -> None:
    """Adam with a rate that falls to zero over random batches of `rows` rows; the same seed, the same result."""
    steps, size, rate = plan
    optimizer = torch.optim.Adam(parameters, lr=rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    random = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        batch = torch.randperm(rows, generator=random)[:size]
        optimizer.zero_grad()
        loss(batch).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
        advance(1)
