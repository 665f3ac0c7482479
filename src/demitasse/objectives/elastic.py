"""`Elastic`: our own objective. Every depth and width learns the similarities that a teacher sees.

The teacher is the model itself after its last layer was tuned, or another encoder. Each depth has an exit, which starts
from the closed form. The anchor keeps the vectors of all depths close to the tuned model's own, so that a shallow query
can be compared with a deep document. Its two stages are in training/recipe.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from demitasse.arguments import check_fields
from demitasse.cut import Cut
from demitasse.errors import DataError
from demitasse.objectives.losses import cosine_distance, nested_cosines, similarity_divergence_of, similarity_targets
from demitasse.objectives.protocol import NestedLoss, Step, flat, widths_of

MAX_TEXTS = 2048  # texts of a batch whose similarities are compared: the work grows with the square
MAX_SCORES = 1 << 27  # similarities in memory at a time: depths are compared in groups that stay below


@dataclass(frozen=True)
class Elastic:
    """Distil a teacher's similarities into every depth at every width, and stay close to the tuned model's vectors.

    Training has two stages: `tune` is the share of the steps that tune the last layer (Matryoshka, with the pair loss);
    the rest distils, at a rate of its own and without dropout, on plain texts too. Meanwhile the last layer keeps
    training on the pair loss with weight `keep`; `contrast` adds the pair loss at every depth and width, for when
    positives matter more than a teacher's view of them, and `distil` weighs that view.
    """

    dims: tuple[int, ...] | None = None
    tune: float = 0.25
    blend: float = 1.0  # share of the tuned weights in what is distilled, the rest from before: forgets less
    exits: bool = True  # whether each depth below the last gets one; else all share the model's own read-out
    distil: float = 1.0
    temperature: float = 0.03
    anchor: float = 20.0
    hold: float = 1.0  # multiplies the anchor's weight at the last layer, which has the most to lose
    back: float = 0.0  # share of the tuned weights mixed back into the layers at the end: forgets less
    keep: float = 1.0
    contrast: float = 0.0
    distil_rate: float | None = None  # learning rate while distilling; default: 1e-3 with Muon, 3e-4 with AdamW
    teacher: str | None = None  # folder or hub name of another encoder to learn the similarities of
    last_only = False
    raw = False
    needs_teacher = True

    def __post_init__(self) -> None:
        check_fields(self)
        if not 0 <= self.blend <= 1:
            raise DataError(f"blend must be from 0 to 1, not {self.blend}; it is a share of the tuned weights")
        if not 0 <= self.tune < 1:
            raise DataError(f"tune must be at least 0 and below 1, not {self.tune}; it is a share of the steps")
        if not 0 <= self.back < 1:
            raise DataError(f"back must be at least 0 and below 1, not {self.back}; it is a share of the tuned weights")

    def cuts(self, full: Cut) -> list[Cut]:
        """Every depth at every width."""
        full = Cut.of(full)
        return [Cut(layers, dims) for layers in range(full.layers + 1) for dims in widths_of(self.dims, full.dims)]

    def __call__(self, embeddings: Sequence[Tensor], loss: NestedLoss, step: Step) -> Tensor:
        """The mean over depths and widths of the divergence from the teacher, and the weighted others."""
        if step.teacher is None or step.anchor is None:
            raise DataError("Elastic needs a teacher's vectors; train() makes them")
        everything = torch.stack(list(embeddings))  # (K, C, B, D)
        widths, texts = widths_of(self.dims, everything.shape[-1]), everything.flatten(1, 2)
        kept = _some(texts.shape[1], step)
        targets = similarity_targets(flat(step.teacher.detach())[kept], self.temperature)
        away = cosine_distance(texts, flat(step.anchor.detach()))  # (K,)
        total = self.anchor * (away.sum() + (self.hold - 1) * away[-1]) / len(away)
        at_once = max(1, MAX_SCORES // (len(widths) * len(targets) ** 2))
        for chosen in torch.split(texts[:, kept], at_once) if self.distil else ():
            scores = nested_cosines(chosen, chosen, widths)
            divergence = similarity_divergence_of(scores, targets, self.temperature)
            total = total + self.distil * divergence.sum() / (len(embeddings) * len(widths))
        paired = everything.shape[1] > 1  # plain texts have no partner
        if self.keep and paired:
            total = total + self.keep * loss(embeddings[-1], widths).mean()
        if self.contrast and paired:
            total = total + self.contrast * loss(everything, widths).mean()
        return total


def _some(count: int, step: Step) -> list[int] | slice:
    """Which of `count` texts are compared with one another: all, or as many as are sure to fit in memory."""
    return slice(None) if count <= MAX_TEXTS else sorted(step.random.sample(range(count), MAX_TEXTS))
