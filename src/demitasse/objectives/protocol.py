"""What every objective is given, and the small checks that they share.

An objective says how a pair loss is spread over depths and dims. It is a frozen dataclass, called with the embeddings
of every depth, the pair loss and the state of the step; it holds no model and no state of its own.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from torch import Tensor

from demitasse.cut import Cut, usual_dims
from demitasse.errors import CutError

NestedLoss = Callable[[Tensor, Sequence[int]], Tensor]
"""A pair loss bound to its batch: takes columns (..., C, B, D) and increasing widths, and returns (..., W)."""


@dataclass
class Step:
    """What an objective may use besides its embeddings: randomness, memory between steps, and teachers' vectors."""

    random: Random = field(default_factory=lambda: Random(0))  # noqa: S311 - which layers to train is not a secret
    memory: MutableMapping[str, Tensor] = field(default_factory=dict)
    teacher: Tensor | None = None  # (C, B, T): vectors whose similarities are learned
    anchor: Tensor | None = None  # (C, B, D): vectors to stay close to


class Objective(Protocol):
    """How a pair loss is spread over depths and dims."""

    @property
    def last_only(self) -> bool:
        """Whether it reads only the last depth."""

    @property
    def raw(self) -> bool:
        """Whether it depends on the length of vectors, and so needs them before they are normalized."""

    @property
    def needs_teacher(self) -> bool:
        """Whether it learns from a teacher's vectors, which only `demitasse.train` makes."""

    def cuts(self, full: Cut) -> list[Cut]:
        """The cuts it trains, for an encoder whose largest cut is `full`."""

    def __call__(self, embeddings: Sequence[Tensor], loss: NestedLoss, step: Step) -> Tensor:
        """The loss to minimize, for `embeddings` with one tensor (C, B, D) for each depth, 0 first."""


def widths_of(dims: Sequence[int] | None, full: int) -> list[int]:
    """`dims` in increasing order, refused if one is wider than `full`; the usual widths if `dims` is None."""
    widths = sorted(usual_dims(full) if dims is None else dims)
    if not widths or widths[0] < 1 or widths[-1] > full:
        raise CutError(f"dims {tuple(dims or ())} do not fit a model of {full} dims; give numbers from 1 to {full}")
    return widths


def checked_width(dims: int, full: int) -> int:
    """`dims`, refused if a model of `full` dims has fewer."""
    return widths_of([dims], full)[0]


def powers_of_two(full: int) -> list[int]:
    """The powers of two from 8 that are below `full`.

    >>> powers_of_two(100)
    [8, 16, 32, 64]
    """
    return [2**power for power in range(3, 20) if 2**power < full] or [full]


def flat(columns: Tensor) -> Tensor:
    """The columns (C, B, D) one after the other: (C * B, D)."""
    return columns.flatten(0, 1)


def check_inner_layers(embeddings: Sequence[Tensor]) -> None:
    """Refuse a model that has no layer below its last one."""
    layers = len(embeddings) - 1
    if layers < 2:
        raise CutError(f"a model of {layers} layers has none below its last one to train; use Matryoshka")
