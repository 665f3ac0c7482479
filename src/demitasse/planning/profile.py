"""`Profile`: what each cut of a model scores and costs on a machine, and which is best for a budget. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from demitasse.arguments import choice, instance, several, text
from demitasse.cut import Cut
from demitasse.encoding.precision import PRECISIONS
from demitasse.encoding.vectors import STORED
from demitasse.errors import DataError
from demitasse.planning.budget import Budget, choose

AXES = ("quality", "latency", "speed", "vectors", "model")  # on which cuts are compared


@dataclass(frozen=True)
class Timing:
    """How fast one cut runs at one precision."""

    p50_ms: float  # one text at a time
    p95_ms: float
    texts_per_second: float  # in batches
    noise: float  # how much rounds differ, as a share; a smaller difference between cuts means nothing


@dataclass(frozen=True)
class MeasuredCut:
    """What one cut scores and costs, at one precision, with its vectors stored in one format."""

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
                raise DataError(
                    f"{name} must be one of {', '.join(allowed)}, not {getattr(self, name)!r}; measure again"
                )
        timing = self.timing
        numbers = (timing.p50_ms, timing.p95_ms, timing.texts_per_second, self.model_mb, self.vector_bytes)
        if not all(isfinite(number) and number > 0 for number in numbers):
            raise DataError(f"the times and sizes of {self} must be numbers above 0; measure again")
        if not (isfinite(self.quality) and isfinite(timing.noise) and timing.noise >= 0):
            raise DataError(f"the quality of {self} must be a number and its noise at least 0; measure again")

    @property
    def variant(self) -> tuple[Cut, str, str]:
        """What was measured: the cut, its precision and its kind of vectors; unique in a profile."""
        return self.cut, self.precision, self.vectors

    def cost(self, axis: str) -> float:
        """The value on an axis, such that lower is better."""
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
        raise DataError(f"there is no axis {axis!r}; choose one of {', '.join(AXES)}")

    @property
    def numbers(self) -> str:
        """All numbers in one line."""
        timing = self.timing
        return (
            f"quality {self.quality:.1f}, p95 {timing.p95_ms:.2f} ms, {timing.texts_per_second:,.0f} texts/s, "
            f"{self.vector_bytes:,} bytes per vector, {self.model_mb:.1f} MB"
        )

    def __str__(self) -> str:
        named = "" if self.name is None else f"{self.name} "
        return f"{named}{self.cut} {self.precision}, {self.vectors} vectors"


def _as_row(name: str, given: object) -> MeasuredCut:
    return instance(name, given, MeasuredCut, "take it from the rows of a profile")


def dominates(measured: MeasuredCut, other: MeasuredCut, axes: Sequence[str] = AXES) -> bool:
    """Whether `measured` is at least as good as `other` on every axis, and better on one."""
    costs = [(measured.cost(axis), other.cost(axis)) for axis in axes]
    return all(ours <= theirs for ours, theirs in costs) and any(ours < theirs for ours, theirs in costs)


@dataclass(frozen=True)
class Profile:
    """What each cut of a model scores and costs; from `demitasse.measure`, or read by `demitasse.read_profile`.

    >>> import demitasse as dt
    >>> def measured(cut, quality, p95_ms):
    ...     timing = Timing(p95_ms / 2, p95_ms, 900 / p95_ms, 0.03)
    ...     return MeasuredCut(dt.Cut.parse(cut), "int8", "float32", quality, timing, model_mb=9, vector_bytes=512)
    >>> rows = (measured("1x128", 70, 1), measured("2x128", 69, 2), measured("3x128", 80, 3))
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
    quality_error: float  # half of the 95% interval of the full model's quality; 0 without resampling
    batch: int  # texts per timed batch
    rows: tuple[MeasuredCut, ...]  # one for each cut, precision and kind of vectors
    others: tuple[MeasuredCut, ...] = ()  # comparison models, at their full size
    made: Mapping[str, Any] = field(default_factory=dict)  # machine, versions, date, rounds, texts timed

    def __post_init__(self) -> None:
        if not self.rows:
            raise DataError("this profile has no rows; measure at least one cut")
        seen = set()
        for measured in self.rows:
            if measured.variant in seen:
                raise DataError(f"this profile has {measured} twice; measure each once")
            seen.add(measured.variant)

    @property
    def machine(self) -> str:
        """The machine it was measured on, in words; empty if unknown."""
        recorded = self.made.get("machine")
        if not isinstance(recorded, Mapping):
            return "" if recorded is None else str(recorded)
        cores = recorded.get("cores")
        counted = "" if cores is None else f"{cores} core{'s' * (cores != 1)}"
        return ", ".join(filter(None, [str(recorded.get("processor") or ""), counted]))

    @property
    def full(self) -> MeasuredCut:
        """What the others are compared with: the most layers and dims, the finest precision and vectors."""
        return max(self.rows, key=lambda one: (one.cut, -PRECISIONS.index(one.precision), -STORED.index(one.vectors)))

    def share(self, row: MeasuredCut) -> float:
        """The quality of one of `rows` as a share of the full model's."""
        _as_row("row", row)
        if self.full.quality <= 0:
            raise DataError(
                f"the full model's quality is {self.full.quality:g}, so no share of it can be taken; compare points"
            )
        return row.quality / self.full.quality

    def front(self, *axes: str) -> tuple[MeasuredCut, ...]:
        """The rows that no other dominates on the axes (by default all of `AXES`), fastest first."""
        axes = tuple(choice("axis", axis, AXES) for axis in axes)
        costs = np.array([[measured.cost(axis) for axis in axes or AXES] for measured in self.rows], np.float64)
        undominated = [
            measured
            for measured, own in zip(self.rows, costs, strict=True)
            if not np.any(np.all(costs <= own, axis=1) & np.any(costs < own, axis=1))
        ]
        return tuple(sorted(undominated, key=lambda measured: (measured.timing.p95_ms, measured.quality)))

    def best(self, budget: Budget, among: Sequence[MeasuredCut] | None = None) -> MeasuredCut:
        """The best row within a budget; if there is none, `demitasse.NothingFits` says which limit is in the way.

        No other row within the budget dominates it. `among` narrows the choice, such as to
        `profile.select(vectors=["float32"])`.
        """
        instance("budget", budget, Budget, "write Budget(latency_ms=5)")
        rows = self.rows if among is None else several("among", among, _as_row)
        return choose(rows, budget, self.full.quality)

    def select(
        self, cuts: Sequence[Cut | str] = (), precisions: Sequence[str] = (), vectors: Sequence[str] = ()
    ) -> tuple[MeasuredCut, ...]:
        """The rows with any of the given cuts, precisions and kinds of vectors; a value that no row has is refused."""
        cuts = several("cuts", cuts, lambda _, one: Cut.of(one))
        precisions, vectors = several("precisions", precisions, text), several("vectors", vectors, text)
        for what, wanted, available in (
            ("cut", cuts, {measured.cut for measured in self.rows}),
            ("precision", precisions, {measured.precision for measured in self.rows}),
            ("kind of vectors", vectors, {measured.vectors for measured in self.rows}),
        ):
            for value in wanted:
                if value not in available:
                    known = ", ".join(str(one) for one in sorted(available))
                    raise DataError(f"{what} {value} was not measured in this profile; choose from {known}")
        return tuple(
            measured
            for measured in self.rows
            if (not cuts or measured.cut in cuts)
            and (not precisions or measured.precision in precisions)
            and (not vectors or measured.vectors in vectors)
        )

    def save(self, path: str | Path) -> None:
        """Write the profile to a JSON file, atomically; docs/planning.md lists every field."""
        from demitasse.host.json_files import save_result
        from demitasse.planning.profile_json import as_plain

        save_result(as_plain(self), path)
