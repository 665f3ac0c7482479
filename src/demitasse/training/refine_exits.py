"""What the closed form leaves on the table: two short optimisations on pooled states, without labels or backbone.

`learn_order` rotates the embedding space so that its first dims are the ones to keep. A rotation leaves every
full-width cosine as it is; all depths share it, so they stay comparable at every width.

`refine_exits` moves each exit from the least-squares solution, which weighs all pairs of texts alike, towards one that
keeps the order among close neighbours (docs/log.md says what each is worth).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn import functional

from demitasse.encoding.exits import Exit
from demitasse.encoding.vectors import Vectors
from demitasse.host.progress import Advance
from demitasse.objectives.losses import cosine_distance, similarity_divergence, similarity_targets

TEMPERATURE = 0.03
ORDER_STEPS, ORDER_BATCH, ORDER_RATE = 200, 768, 3e-3
REFINE_STEPS, REFINE_BATCH, REFINE_RATE = 150, 768, 2e-3
ACROSS = 2.0  # weight of similarities to full-depth embeddings: keeps depths comparable
ANCHOR = 5.0  # weight of the cosine to the text's own full-depth embedding


def learn_order(embeddings: Vectors, seed: int, advance: Advance, device: torch.device | str = "cpu") -> Vectors:
    """A rotation (D, D), to be applied as embeddings @ rotation, after which prefixes keep most of the similarities."""
    vectors = torch.from_numpy(embeddings).to(device)
    dims = vectors.shape[1]
    widths = [width for width in (2**power for power in range(4, 20)) if width <= dims // 2] or [max(1, dims // 2)]
    # Any skew-symmetric S gives a rotation (I - S)(I + S)^-1 (Cayley), so plain gradient steps never leave them.
    free = torch.zeros(dims, dims, device=device, requires_grad=True)

    def rotation() -> Tensor:
        skew, one = free - free.T, torch.eye(dims, device=device)
        turn: Tensor = torch.linalg.solve(one + skew, one - skew)
        return turn

    def loss(batch: Tensor) -> Tensor:
        targets = similarity_targets(vectors[batch], TEMPERATURE)
        turned = vectors[batch] @ rotation()
        parts = [similarity_divergence(turned[:, :w], turned[:, :w], targets, TEMPERATURE) for w in widths]
        return torch.stack(parts).sum()

    _descend(loss, [free], len(vectors), (ORDER_STEPS, ORDER_BATCH, ORDER_RATE), seed, advance)
    return rotation().detach().cpu().numpy()


def refine_exits(
    exits: Mapping[int, Exit],
    states: Mapping[int, Vectors],
    targets: Vectors,
    seed: int,
    advance: Advance,
) -> dict[int, Exit]:
    """`exits` after a short distillation of the similarities between `targets`, the full-depth embeddings.

    All depths are optimised together, so that the targets are computed once per step.
    """
    inputs = {depth: functional.normalize(torch.from_numpy(states[depth]), dim=-1) for depth in exits}
    weights = {depth: torch.from_numpy(exit_.weight).clone().requires_grad_() for depth, exit_ in exits.items()}
    biases = {depth: torch.from_numpy(exit_.bias).clone().requires_grad_() for depth, exit_ in exits.items()}
    teachers = torch.from_numpy(targets)

    def loss(batch: Tensor) -> Tensor:
        teacher = teachers[batch]
        spread = similarity_targets(teacher, TEMPERATURE)
        total = torch.zeros(())
        for depth in exits:
            ours = functional.linear(inputs[depth][batch], weights[depth], biases[depth])
            among = similarity_divergence(ours, ours, spread, TEMPERATURE)
            across = similarity_divergence(ours, teacher, spread, TEMPERATURE)
            total = total + among + ACROSS * across + ANCHOR * cosine_distance(ours, teacher)
        return total

    free = [*weights.values(), *biases.values()]
    _descend(loss, free, len(teachers), (REFINE_STEPS, REFINE_BATCH, REFINE_RATE), seed, advance)
    return {depth: Exit(weights[depth].detach().numpy(), biases[depth].detach().numpy()) for depth in exits}


def _descend(
    loss: Callable[[Tensor], Tensor],
    parameters: list[Tensor],
    count: int,
    plan: tuple[int, int, float],
    seed: int,
    advance: Advance,
) -> None:
    """Adam with a rate that falls to zero, on random batches of `count` texts; a seed always gives the same result."""
    steps, size, rate = plan
    optimizer = torch.optim.Adam(parameters, lr=rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    random = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        batch = torch.randperm(count, generator=random)[:size]
        optimizer.zero_grad()
        loss(batch).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
        advance(1)
