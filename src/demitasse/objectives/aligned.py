"""`Aligned`: every depth and width learns to lie where teachers put a text, in a space that is saved with the model.

The vectors of one or several teachers are joined and turned to the model's dims (encoding/teacher_space.py). Each
depth, the last one too, has an exit into that space, which starts from the closed form, and learns from the teachers'
vectors themselves, not only from their similarities. So all depths are comparable with one another, and with documents
that a teacher encodes. Its steps are in training/aligned_recipe.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from demitasse.arguments import check_fields
from demitasse.cut import Cut
from demitasse.errors import DataError
from demitasse.objectives.fused_similarity import nested_similarity_divergence
from demitasse.objectives.losses import cosine_distance, similarity_targets
from demitasse.objectives.protocol import NestedLoss, Step, flat, widths_of

MAX_TEXTS = 2048  # texts of a batch whose similarities are compared: the work grows with the square
MAX_SCORES = 1 << 28  # similarities in memory at a time: depths are compared in groups that stay below


@dataclass(frozen=True)
class Aligned:
    """Distil teachers' similarities into every depth at every width, and put every text where the teachers put it.

    `teachers` are folders or hub names of any encoders; `weights` their shares of a cosine (equal ones if left out).
    The loss is the mean, over depths, of `distil` times the divergence from the teachers' similarities at each of
    `dims`, and `anchor` times one minus the cosine to the text's vector in the shared space. `contrast` adds the pair
    loss at every depth and width, on data that has pairs; negatives of triples are candidates in it.
    """

    teachers: tuple[str, ...] = ()
    weights: tuple[float, ...] | None = None
    dims: tuple[int, ...] | None = None
    distil: float = 1.0
    temperature: float = 0.05
    anchor: float = 20.0
    contrast: float = 0.0
    prompts: bool = False  # whether teachers put their own prompts before queries, documents and sentences
    centre: bool = False  # whether the mean of the teachers' vectors is taken from them
    order: bool = True  # whether dims are ordered so that the first keep similarities; else by what they hold
    rate: float = 2e-4  # AdamW's, for biases and norms, and for the layers' matrices if Muon does not train them
    matrix_rate: float = 6e-4  # Muon's, for the layers' matrices
    last_only = False
    raw = False
    needs_teacher = True

    def __post_init__(self) -> None:
        check_fields(self)
        if self.weights is not None:
            if len(self.weights) != len(self.teachers):
                raise DataError(f"{len(self.weights)} weights for {len(self.teachers)} teachers; give one per teacher")
            if not all(weight > 0 for weight in self.weights):
                raise DataError(f"weights must be above 0, not {self.weights}; leave a teacher out instead")
        if not self.temperature > 0:
            raise DataError(f"temperature must be above 0, not {self.temperature}; 0.05 is common")
        for name in ("rate", "matrix_rate"):
            if not getattr(self, name) > 0:
                raise DataError(f"{name} must be above 0, not {getattr(self, name)}")

    @property
    def shares(self) -> tuple[float, ...]:
        """The share of each teacher in a cosine; together 1."""
        weights = self.weights or (1.0,) * len(self.teachers)
        return tuple(weight / sum(weights) for weight in weights)

    def cuts(self, full: Cut) -> list[Cut]:
        """Every depth at every width."""
        full = Cut.of(full)
        return [Cut(layers, dims) for layers in range(full.layers + 1) for dims in widths_of(self.dims, full.dims)]

    def __call__(self, embeddings: Sequence[Tensor], loss: NestedLoss, step: Step) -> Tensor:
        """The mean over depths and widths of the divergence from the teachers, and the weighted others."""
        if step.teacher is None or step.anchor is None:
            raise DataError("Aligned needs teachers' vectors; train() makes them")
        everything = torch.stack(list(embeddings))  # (K, C, B, D)
        depths, columns, rows, dims = everything.shape
        widths = widths_of(self.dims, dims)
        total = self.anchor * cosine_distance(everything.flatten(1, 2), flat(step.anchor.detach())).mean()
        if self.distil:
            # Batches are shuffled, so the first rows are as good a sample as any, and need no random numbers.
            kept = slice(min(rows, max(2, MAX_TEXTS // columns)))
            targets = similarity_targets(flat(step.teacher.detach()[:, kept]), self.temperature)
            texts = everything[:, :, kept].flatten(1, 2)
            for part in torch.split(texts, max(1, MAX_SCORES // len(targets) ** 2)):
                parts = nested_similarity_divergence(part, widths, targets, self.temperature)
                total = total + self.distil * parts.sum() / (depths * len(widths))
        if self.contrast and columns > 1:  # plain texts have no partner
            total = total + self.contrast * loss(everything, widths).mean()
        return total
