"""`Profile`: what each cut of a model is worth and costs on a machine, and which cut is best for a budget. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from demitasse.cut import Cut
from demitasse.encoding.precision import PRECISIONS
from demitasse.encoding.vectors import STORED
from demitasse.errors import DataError
from demitasse.planning.budget import Budget, choose

AXES = ("quality", "latency", "speed", "vectors", "model")  # on which a row may beat another


@dataclass(frozen=True)
class Timing:
    """How fast one cut runs at one precision."""

    p50_ms: float  # one text at a time
    p95_ms: float
    texts_per_second: float  # in batches
    noise: float  # how far rounds differ, as a share: what a difference must exceed to mean anything


@dataclass(frozen=True)
class MeasuredCut:
    """What one cut is worth and costs, at one precision, with its vectors kept in one way."""

    cut: Cut
    precision: str
    vectors: str
    quality: float  # times 100
    timing: Timing
    model_mb: float
    vector_bytes: int
    name: str | None = None  # of a comparison model; `None` for the profiled model itself

    def __post_init__(self) -> None:
        for name, allowed in (("precision", PRECISIONS), ("vectors", STORED)):
            if getattr(self, name) not in allowed:
                raise DataError(f"{name} is one of {', '.join(allowed)}, not {getattr(self, name)!r}; measure again")
        timing = self.timing
        numbers = (timing.p50_ms, timing.p95_ms, timing.texts_per_second, self.model_mb, self.vector_bytes)
        if not all(isfinite(number) and number > 0 for number in numbers):
            raise DataError(f"the times and sizes of {self} must be numbers above 0; measure again")
        if not (isfinite(self.quality) and isfinite(timing.noise) and timing.noise >= 0):
            raise DataError(f"the quality of {self} must be a number and its noise at least 0; measure again")

    def cost(self, axis: str) -> float:
        """Where the row stands on an axis, the lower the better."""
        if axis == "quality":
            return -self.quality
        if axis == "latency":
            return self.timing.p95_ms
        if axis == "speed":
            return -self.timing.texts_per_second
        if axis == "vectors":
            return self.vector_bytes
        if axis == "model":
            return self.model_mb
        raise DataError(f"there is no axis {axis!r}; there is {', '.join(AXES)}")

    @property
    def numbers(self) -> str:
        """The numbers of the row in words."""
        timing = self.timing
        return (
            f"quality {self.quality:.1f}, p95 {timing.p95_ms:.2f} ms, {timing.texts_per_second:,.0f} texts/s, "
            f"{self.vector_bytes:,} bytes a vector, {self.model_mb:.1f} MB"
        )

    def __str__(self) -> str:
        named = "" if self.name is None else f"{self.name} "
        return f"{named}{self.cut} {self.precision}, {self.vectors} vectors"


def dominates(row: MeasuredCut, other: MeasuredCut, axes: Sequence[str] = AXES) -> bool:
    """Whether `row` beats `other`: at least as good on every axis, and better on one."""
    costs = [(row.cost(axis), other.cost(axis)) for axis in axes]
    return all(ours <= theirs for ours, theirs in costs) and any(ours < theirs for ours, theirs in costs)


@dataclass(frozen=True)
class Profile:
    """What each cut of a model is worth and costs; made by `demitasse.measure`, or read by `demitasse.read_profile`.

    >>> import demitasse as dt
    >>> def row(cut, quality, p95_ms):
    ...     timing = Timing(p95_ms / 2, p95_ms, 900 / p95_ms, 0.03)
    ...     return MeasuredCut(dt.Cut.parse(cut), "int8", "float32", quality, timing, model_mb=9, vector_bytes=512)
    >>> rows = (row("1x128", 70, 1), row("2x128", 69, 2), row("3x128", 80, 3))
    >>> profile = Profile("tiny", "", "Spearman", quality_error=1.0, batch=32, rows=rows)
    >>> [str(row.cut) for row in profile.front()]
    ['1x128', '3x128']
    >>> best = profile.best(dt.Budget(latency_ms=2.5))
    >>> best.cut, profile.share(best)
    (Cut(layers=1, dims=128), 0.875)
    """

    model: str
    fingerprint: str
    measure: str  # what quality is, in words
    quality_error: float  # half of the 95% interval of the full model's quality; 0 where nothing was resampled
    batch: int  # texts of one timed batch
    rows: tuple[MeasuredCut, ...]  # one for each cut, precision and way of keeping vectors
    others: tuple[MeasuredCut, ...] = ()  # comparison models, at their full size
    made: Mapping[str, Any] = field(default_factory=dict)  # machine, versions, date, rounds, texts timed

    def __post_init__(self) -> None:
        if not self.rows:
            raise DataError("this profile has no rows; measure at least one cut")
        seen = set()
        for row in self.rows:
            if (row.cut, row.precision, row.vectors) in seen:
                raise DataError(f"this profile has {row} twice; measure each once")
            seen.add((row.cut, row.precision, row.vectors))

    @property
    def machine(self) -> str:
        """The machine it was measured on in words, as far as it is known."""
        told = self.made.get("machine")
        if not isinstance(told, Mapping):
            return "" if told is None else str(told)
        cores = told.get("cores")
        counted = "" if cores is None else f"{cores} core{'s' * (cores != 1)}"
        return ", ".join(filter(None, [str(told.get("processor") or ""), counted]))

    @property
    def full(self) -> MeasuredCut:
        """What the others are held against: most layers and dims, finest precision, finest vectors."""
        return max(self.rows, key=lambda row: (row.cut, -PRECISIONS.index(row.precision), -STORED.index(row.vectors)))

    def share(self, row: MeasuredCut) -> float:
        """The quality of a row as a share of the full model's."""
        if self.full.quality <= 0:
            raise DataError(f"the full model's quality is {self.full.quality:g}, of which nothing is a share")
        return row.quality / self.full.quality

    def front(self, *axes: str) -> tuple[MeasuredCut, ...]:
        """The rows that no other row beats on the axes (all of `AXES` where none is named), fastest first."""
        costs = np.array([[row.cost(axis) for axis in axes or AXES] for row in self.rows], np.float64)
        kept = [
            row
            for row, ours in zip(self.rows, costs, strict=True)
            if not np.any(np.all(costs <= ours, axis=1) & np.any(costs < ours, axis=1))
        ]
        return tuple(sorted(kept, key=lambda row: (row.timing.p95_ms, row.quality)))

    def best(self, budget: Budget, among: Sequence[MeasuredCut] | None = None) -> MeasuredCut:
        """The best row within a budget; `demitasse.NothingFits` says which limit is in the way where there is none.

        No row that keeps the budget beats it. `among` narrows the choice, to `profile.select(vectors=["float32"])`
        for example.
        """
        return choose(self.rows if among is None else among, budget, self.full.quality)

    def select(
        self, cuts: Sequence[Cut] = (), precisions: Sequence[str] = (), vectors: Sequence[str] = ()
    ) -> tuple[MeasuredCut, ...]:
        """The rows that have one of the values named on each side; a name that no row has is refused."""
        for what, wanted, there in (
            ("cut", cuts, {row.cut for row in self.rows}),
            ("precision", precisions, {row.precision for row in self.rows}),
            ("way of keeping vectors", vectors, {row.vectors for row in self.rows}),
        ):
            for value in wanted:
                if value not in there:
                    known = ", ".join(str(one) for one in sorted(there))
                    raise DataError(f"no {what} {value} was measured in this profile; there is {known}")
        return tuple(
            row
            for row in self.rows
            if (not cuts or row.cut in cuts)
            and (not precisions or row.precision in precisions)
            and (not vectors or row.vectors in vectors)
        )

    def save(self, path: str | Path) -> None:
        """Write the profile to a JSON file, whole or not at all; docs/planning.md has every field."""
        from demitasse.host.json_files import save_result
        from demitasse.planning.profile_json import as_plain

        save_result(as_plain(self), path)
