"""The published objectives: Matryoshka, 2DMSE, ESE, and their relatives.

`embeddings` has one tensor (C, B, D) for each depth: the columns of a batch, starting at depth 0, which has no layers.
An objective that reads only the last depth can be given that one alone. docs/objectives.md has the formulas.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

import torch
from torch import Tensor

from demitasse.arguments import check_fields, choice, instance
from demitasse.cut import Cut
from demitasse.errors import DataError, shown
from demitasse.objectives.compression import Compress, Published
from demitasse.objectives.losses import feature_divergence
from demitasse.objectives.protocol import (
    NestedLoss,
    Step,
    check_inner_layers,
    checked_width,
    flat,
    powers_of_two,
    widths_of,
)

WEIGHTINGS: dict[str, Callable[[int], float]] = {
    "uniform": lambda depth: 1.0,
    "log": lambda depth: 1 / (1 + math.log(1 + depth)),
    "linear": lambda depth: 1 / (1 + depth),
}


@dataclass(frozen=True)
class Matryoshka:
    """The pair loss at several widths of the last layer, summed (sentence-transformers' MatryoshkaLoss).

    `dims=None` means the powers of two from 32 and the full width. Each step draws `per_step` of the widths; -1 is all.
    """

    dims: tuple[int, ...] | None = None
    weights: tuple[float, ...] | None = None
    per_step: int = -1
    last_only = True
    raw = False
    needs_teacher = False

    def __post_init__(self) -> None:
        check_fields(self)
        if self.weights is not None and len(self.weights) != len(self.dims or ()):
            raise DataError(f"{len(self.weights)} weights for {len(self.dims or ())} dims; give one weight per width")

    def cuts(self, full: Cut) -> list[Cut]:
        """The last layer at its widths."""
        full = Cut.of(full)
        return [Cut(full.layers, width) for width in widths_of(self.dims, full.dims)]

    def __call__(self, embeddings: Sequence[Tensor], loss: NestedLoss, step: Step) -> Tensor:
        """The weighted sum over widths."""
        return self.at(embeddings[-1], loss, step.random)

    def at(self, columns: Tensor, loss: NestedLoss, random: Random) -> Tensor:
        """The same for the columns (C, B, D) of any depth."""
        widths = widths_of(self.dims, columns.shape[-1])
        weight = dict(zip(self.dims or widths, self.weights or [1.0] * len(widths), strict=True))
        widths = sorted(widths, reverse=True)  # sentence-transformers draws in this order
        if 0 < self.per_step < len(widths):
            widths = [widths[index] for index in random.sample(range(len(widths)), self.per_step)]
        widths = sorted(widths)
        return (loss(columns, widths) * columns.new_tensor([weight[width] for width in widths])).sum()


@dataclass(frozen=True)
class TwoDMSE:
    """2D Matryoshka (the first version of the paper): last layer and one random layer, at full width and a random one.

    The width is drawn from the powers of two between 8 and the full width. A KL over the dims pulls the random layer's
    vectors towards the last layer's. `weighting="inverse"` divides the random layer's losses by its depth, as
    angle-emb 0.3.8 to 0.3.10 did; a temperature of 0 leaves the KL out.
    """

    temperature: float = 1.0
    weighting: str = "uniform"
    detach: bool = False  # the released code lets the KL train the last layer too
    last_only = False
    raw = True
    needs_teacher = False

    def __post_init__(self) -> None:
        check_fields(self)
        choice("weighting", self.weighting, ("uniform", "inverse"))

    def cuts(self, full: Cut) -> list[Cut]:
        """Every layer from 1 on at every power of two from 8 up, and at full width."""
        full = Cut.of(full)
        widths = (*powers_of_two(full.dims), full.dims)
        return [Cut(layers, dims) for layers in range(1, full.layers + 1) for dims in widths]

    def __call__(self, embeddings: Sequence[Tensor], loss: NestedLoss, step: Step) -> Tensor:
        """Four losses and the KL."""
        last, full = embeddings[-1], embeddings[-1].shape[-1]
        check_inner_layers(embeddings)
        depth = step.random.randint(1, len(embeddings) - 2)
        widths = [step.random.choice(powers_of_two(full)), full]
        scale = 1 / depth if self.weighting == "inverse" else 1.0
        total = loss(last, widths).sum() + scale * loss(embeddings[depth], widths).sum()
        if self.temperature > 0:
            teacher = last.detach() if self.detach else last
            pull = feature_divergence(flat(teacher), flat(embeddings[depth]), self.temperature)
            total = total + self.temperature * pull
        return total


@dataclass(frozen=True)
class Espresso:
    """ESE as in the paper: every layer from 1 on at the first `dims`, and learn-to-compress.

    Layer i below the last weighs 1 / (1 + ln i), the last weighs 1, for the pair loss and for `compress` alike.
    `compress=None` leaves out learn-to-compress; the default is the target of the authors' code; `Principal()` is well
    posed. With `express=False`, layers below the last have learn-to-compress only.
    """

    dims: int = 128
    compress: Compress | None = field(default_factory=Published)
    express: bool = True
    last_only = False
    raw = True
    needs_teacher = False

    def __post_init__(self) -> None:
        check_fields(self)
        if self.compress is not None and not callable(self.compress):
            raise DataError(f"compress must be Published(), Principal() or None, not {shown(self.compress)}")

    def cuts(self, full: Cut) -> list[Cut]:
        """Layers from 1 on at `dims`."""
        full = Cut.of(full)
        dims = checked_width(self.dims, full.dims)
        return [Cut(layers, dims) for layers in range(1, full.layers + 1)]

    def __call__(self, embeddings: Sequence[Tensor], loss: NestedLoss, step: Step) -> Tensor:
        """Learn-to-express and learn-to-compress."""
        last = len(embeddings) - 1
        dims = checked_width(self.dims, embeddings[-1].shape[-1])
        weights = [1 / (1 + math.log(depth)) for depth in range(1, last)] + [1.0]
        expressed = embeddings[1:] if self.express else embeddings[-1:]
        losses = loss(torch.stack(list(expressed)), [dims]).squeeze(-1)
        total = (losses * losses.new_tensor(weights[-len(expressed) :])).sum()
        if self.compress is not None:
            for depth, weight in enumerate(weights, 1):
                total = total + weight * self.compress(flat(embeddings[depth]), dims, step.memory, f"depth {depth}")
        return total


@dataclass(frozen=True)
class EspressoReleased:
    """ESE as angle-emb 0.4.0 to 0.6.1 computes it, quirks and all.

    The last layer at full width and at `dims`; below it depths 0 to n-2 (n-1 is left out) at `dims`, each with weight
    1 / (1 + ln(1 + i)) and divided by n-1; `Published` compression everywhere.
    """

    dims: int = 128
    temperature: float = 1.0
    compress: bool = True
    last_only = False
    raw = True
    needs_teacher = False

    def __post_init__(self) -> None:
        check_fields(self)

    def cuts(self, full: Cut) -> list[Cut]:
        """The last layer at both widths; depths 0 to n-2 at `dims`."""
        full = Cut.of(full)
        dims = checked_width(self.dims, full.dims)
        return [*(Cut(layers, dims) for layers in range(full.layers - 1)), Cut(full.layers, dims), full]

    def __call__(self, embeddings: Sequence[Tensor], loss: NestedLoss, step: Step) -> Tensor:
        """Everything summed."""
        layers, full = len(embeddings) - 1, embeddings[-1].shape[-1]
        dims = checked_width(self.dims, full)
        total = loss(embeddings[-1], [dims, full] if dims < full else [full]).sum() * (1 if dims < full else 2)
        total = total + self._compression(embeddings[-1], dims, step)
        for depth in range(layers - 1):
            part = loss(embeddings[depth], [dims]).sum() + self._compression(embeddings[depth], dims, step)
            total = total + WEIGHTINGS["log"](depth) * part / (layers - 1)
        return total

    def _compression(self, columns: Tensor, dims: int, step: Step) -> Tensor:
        if not self.compress:
            return columns.new_zeros(())
        return Published(self.temperature)(flat(columns), dims, step.memory, "")


@dataclass(frozen=True)
class AdaptiveLayer:
    """Last layer and drawn layers below it, and a KL to the last (sentence-transformers 6.2's AdaptiveLayerLoss).

    Depth 0, the output of the embeddings, is one of the layers below. The KL is summed, not averaged, over the drawn
    layers, and does not train the last layer. `inner` is the objective of each layer: by default its full width.
    """

    inner: Matryoshka | None = None
    layers_per_step: int = 1
    last_weight: float = 1.0
    prior_weight: float = 1.0
    kl_weight: float = 1.0
    kl_temperature: float = 0.3
    weighting: str = "uniform"
    last_only = False
    raw = False
    needs_teacher = False

    def __post_init__(self) -> None:
        check_fields(self)
        if self.inner is not None:
            instance("inner", self.inner, Matryoshka, "write Matryoshka(dims=(64, 128))")
        choice("weighting", self.weighting, [*WEIGHTINGS])

    def cuts(self, full: Cut) -> list[Cut]:
        """Every depth at the inner widths."""
        full = Cut.of(full)
        widths = [full.dims] if self.inner is None else widths_of(self.inner.dims, full.dims)
        return [Cut(layers, dims) for layers in range(full.layers + 1) for dims in widths]

    def __call__(self, embeddings: Sequence[Tensor], loss: NestedLoss, step: Step) -> Tensor:
        """The last layer's loss, the others' weighted mean, and the KL."""
        total = self.last_weight * self._at(embeddings[-1], loss, step)
        depths = list(range(len(embeddings) - 1))
        if 0 < self.layers_per_step < len(depths):
            depths = step.random.sample(depths, self.layers_per_step)
        for depth in depths:
            weight = WEIGHTINGS[self.weighting](depth) * self.prior_weight / len(depths)
            total = total + weight * self._at(embeddings[depth], loss, step)
            if self.kl_temperature > 0:
                pull = feature_divergence(flat(embeddings[-1]).detach(), flat(embeddings[depth]), self.kl_temperature)
                total = total + self.kl_weight * self.kl_temperature * pull
        return total

    def _at(self, columns: Tensor, loss: NestedLoss, step: Step) -> Tensor:
        if self.inner is None:
            return loss(columns, [columns.shape[-1]]).sum()
        return self.inner.at(columns, loss, step.random)


@dataclass(frozen=True)
class Matryoshka2d:
    """`AdaptiveLayer` over `Matryoshka` (Matryoshka2dLoss of sentence-transformers 6.2), with its defaults."""

    dims: tuple[int, ...] | None = None
    weights: tuple[float, ...] | None = None
    layers_per_step: int = 1
    dims_per_step: int = 1
    kl_weight: float = 1.0
    weighting: str = "uniform"
    last_only = False
    raw = False
    needs_teacher = False

    def __post_init__(self) -> None:
        check_fields(self)

    def _adaptive(self) -> AdaptiveLayer:
        inner = Matryoshka(self.dims, self.weights, self.dims_per_step)
        return AdaptiveLayer(inner, self.layers_per_step, kl_weight=self.kl_weight, weighting=self.weighting)

    def cuts(self, full: Cut) -> list[Cut]:
        """Every depth at every width."""
        full = Cut.of(full)
        return self._adaptive().cuts(full)

    def __call__(self, embeddings: Sequence[Tensor], loss: NestedLoss, step: Step) -> Tensor:
        """The loss of the equivalent `AdaptiveLayer`."""
        return self._adaptive()(embeddings, loss, step)


@dataclass(frozen=True)
class Starbucks:
    """A fixed list of cuts, each with the pair loss and a KL to the last layer's first dims (Starbucks' STS code).

    `sizes=None` is a diagonal: every second layer from the last, at half the width each time, down to 32.
    """

    sizes: tuple[Cut, ...] | None = None
    kl_weight: float = 0.3
    detach: bool = False  # the released code lets the KL train the last layer too
    last_only = False
    raw = False
    needs_teacher = False

    def __post_init__(self) -> None:
        check_fields(self)

    def cuts(self, full: Cut) -> list[Cut]:
        """The list, the full cut last."""
        full = Cut.of(full)
        sizes = diagonal(full) if self.sizes is None else [cut.within(full) for cut in self.sizes]
        return sorted({*sizes, full})

    def __call__(self, embeddings: Sequence[Tensor], loss: NestedLoss, step: Step) -> Tensor:
        """The sum over cuts."""
        full = Cut(len(embeddings) - 1, embeddings[-1].shape[-1])
        teacher = flat(embeddings[-1]).detach() if self.detach else flat(embeddings[-1])
        total = embeddings[-1].new_zeros(())
        for layers, dims in self.cuts(full):
            total = total + loss(embeddings[layers], [dims]).sum()
            if layers < full.layers:
                pull = feature_divergence(teacher[:, :dims], flat(embeddings[layers])[:, :dims], 1.0)
                total = total + self.kl_weight * pull
        return total


def diagonal(full: Cut) -> list[Cut]:
    """Every second layer from the last, at half the width each time, but not below 32.

    >>> [str(cut) for cut in diagonal(Cut(6, 384))]
    ['2x96', '4x192', '6x384']
    """
    layers = range(full.layers, 0, -2)
    return sorted(Cut(depth, max(min(32, full.dims), full.dims >> halvings)) for halvings, depth in enumerate(layers))
