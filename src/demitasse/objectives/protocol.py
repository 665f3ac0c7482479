"""What every objective is given, and small questions they all ask.

An objective says how a pair loss is spread over depths and dims. It is a frozen dataclass, called on the rows of every
depth, the pair loss and what the step knows; it holds no model and no state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from torch import Tensor

from demitasse.cut import Cut, usual_dims
from demitasse.errors import CutError, DataError

NestedLoss = Callable[[Tensor, Sequence[int]], Tensor]
"""A pair loss that knows its batch: rows (..., C, B, D) and rising widths to (..., W)."""


@dataclass
class Step:
    """What an objective may know besides its rows: chance, what it keeps between steps, and teachers' vectors."""

    random: Random = field(default_factory=lambda: Random(0))  # noqa: S311 - which layers to train is no secret
    memory: MutableMapping[str, Tensor] = field(default_factory=dict)
    teacher: Tensor | None = None  # (C, B, T): whose similarities are to be kept
    anchor: Tensor | None = None  # (C, B, D): vectors to stay close to


class Objective(Protocol):
    """How a pair loss is spread over depths and dims."""

    @property
    def last_only(self) -> bool:
        """Whether the last depth is all it reads."""

    @property
    def raw(self) -> bool:
        """Whether it looks at the scale of vectors, and so wants them before they are brought to unit length."""

    def cuts(self, full: Cut) -> list[Cut]:
        """The cuts it trains, of an encoder whose largest is `full`."""

    def __call__(self, rows: Sequence[Tensor], loss: NestedLoss, step: Step) -> Tensor:
        """The loss to descend."""


def widths_of(dims: Sequence[int] | None, full: int) -> list[int]:
    """`dims` in rising order, none wider than `full`; without any, the usual ones."""
    widths = sorted(usual_dims(full) if dims is None else dims)
    if not widths or widths[0] < 1 or widths[-1] > full:
        raise CutError(f"dims {tuple(dims or ())} do not fit a model of {full} dims; give numbers from 1 to {full}")
    return widths


def narrower(dims: int, full: int) -> int:
    """`dims`, if a model of `full` dims has as many."""
    return widths_of([dims], full)[0]


def powers(full: int) -> list[int]:
    """The powers of two from 8 up to below `full`.

    >>> powers(100)
    [8, 16, 32, 64]
    """
    return [2**power for power in range(3, 20) if 2**power < full] or [full]


def flat(rows: Tensor) -> Tensor:
    """The rows of all columns one after the other, (C * B, D)."""
    return rows.flatten(0, 1)


def deep_enough(rows: Sequence[Tensor]) -> None:
    """Refuse a model that has no layer between the embeddings and the last one."""
    if len(rows) < 3:
        raise CutError(f"a model of {len(rows) - 1} layers has none below its last to train; use Matryoshka")


def known(name: str, value: str, allowed: Iterable[str]) -> None:
    """Refuse a `value` that is not one of those `allowed`."""
    if value not in allowed:
        raise DataError(f"{name} {value!r} is not known; use one of {', '.join(allowed)}")
