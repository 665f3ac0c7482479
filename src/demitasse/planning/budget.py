"""`Budget`: what a deployment can afford; and the choice of the best measured cut within it. No torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import TYPE_CHECKING

from demitasse.arguments import choice, number, whole
from demitasse.errors import DataError

if TYPE_CHECKING:
    from demitasse.planning.profile import MeasuredCut

PREFER = ("quality", "latency", "vectors", "model")
# What decides between cuts that tie on what is preferred. Quality comes last: anyone who wants more of it than the
# minimum prefers it.
ORDER = ("latency", "vectors", "model", "speed", "quality")
COSTS = ("latency_ms", "texts_per_second", "vector_bytes", "model_mb", "memory_gb")
_LIMITED = {
    "latency_ms": "latency",
    "texts_per_second": "speed",
    "vector_bytes": "vectors",
    "model_mb": "model",
    "memory_gb": "vectors",
    "quality": "latency",  # a minimum quality alone asks for the fastest cut that has it
}
_AT_LEAST = ("texts_per_second", "quality")


def _index_gb(measured: MeasuredCut) -> float:
    """The gigabytes of an index of a million documents."""
    from demitasse.encoding.vectors import index_bytes  # here, since a command line needs no numpy to begin

    return index_bytes(measured.cut.dims) / 1000


_VALUE: Mapping[str, Callable[[MeasuredCut], float]] = {
    "latency_ms": lambda measured: measured.timing.p95_ms,
    "texts_per_second": lambda measured: measured.timing.texts_per_second,
    "vector_bytes": lambda measured: measured.vector_bytes,
    "model_mb": lambda measured: measured.model_mb,
    "memory_gb": _index_gb,
    "quality": lambda measured: measured.quality,
}
_WORDS = {
    "latency_ms": "p95 latency of at most {} ms",
    "texts_per_second": "at least {} texts/s",
    "vector_bytes": "at most {} bytes per vector",
    "model_mb": "a model of at most {} MB",
    "memory_gb": "an index of at most {} GB",
    "quality": "a quality of at least {}",
}


class NothingFits(DataError):  # noqa: N818 - reads better where it is caught
    """No measured cut is within the budget; has the limits that bind and the cut that comes nearest."""

    def __init__(self, sentence: str, limits: tuple[str, ...], nearest: MeasuredCut) -> None:
        super().__init__(sentence)
        self.limits = limits
        self.nearest = nearest


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What a deployment can afford. Everything is optional.

    `latency_ms` is the maximum p95 latency of one text. `quality` is a minimum: up to 1 it is a share of the full
    model's, above 1 it is points. `memory_gb` is the maximum size of an index of `documents`, without their texts.
    `prefer` says what is best among the cuts that fit: the highest "quality", the lowest
    "latency", the smallest "vectors" or "model". By default it is quality if any cost is limited, else latency.

    >>> budget = Budget(latency_ms=5, quality=0.97)
    >>> print(budget)
    p95 latency of at most 5 ms, at least 97% of the full quality
    >>> budget.preferred, Budget(quality=0.97).preferred
    ('quality', 'latency')
    """

    latency_ms: float | None = None
    texts_per_second: float | None = None
    vector_bytes: float | None = None
    model_mb: float | None = None
    quality: float | None = None
    prefer: str | None = None
    documents: int | None = None
    memory_gb: float | None = None

    def __post_init__(self) -> None:
        if self.prefer is not None:
            choice("prefer", self.prefer, PREFER)
        for name in self.limits:
            number(name, getattr(self, name), above=0)
        if self.documents is not None:
            whole("documents", self.documents, least=1)
        elif self.memory_gb is not None:
            raise DataError(
                "memory_gb is for an index, whose size depends on how many documents it has; give documents"
            )
        if self.quality is not None and self.quality > 100:
            raise DataError(
                f"quality must be a share up to 1 or points up to 100, not {self.quality:g}; write 0.97 or 75"
            )

    @property
    def limits(self) -> tuple[str, ...]:
        """The names of the limits that are set."""
        return tuple(name for name in _VALUE if getattr(self, name) is not None)

    @property
    def preferred(self) -> str:
        """What is best among the cuts that fit."""
        return self.prefer or ("quality" if any(name in COSTS for name in self.limits) else "latency")

    def allowed(self, limit: str, full_quality: float) -> float:
        """The value of a limit, with a share of the full model's quality turned into points."""
        value = float(getattr(self, limit))
        if limit != "quality" or value > 1:
            return value
        if full_quality <= 0:
            raise DataError(
                f"the full model's quality is {full_quality:g}, so no share of it can be taken; "
                "give the minimum quality in points"
            )
        return value * full_quality

    def excess(self, row: MeasuredCut, limit: str, full_quality: float) -> float:
        """How far `row` exceeds a limit, as a share of the limit; 0 if it does not."""
        allowed, value = self.allowed(limit, full_quality), self.value(limit, row)
        return max(0.0, (allowed - value if limit in _AT_LEAST else value - allowed) / allowed)

    def value(self, limit: str, row: MeasuredCut) -> float:
        """What `row` has of what a limit limits."""
        return _VALUE[limit](row) * ((self.documents or 0) / 1e6 if limit == "memory_gb" else 1)

    def broken(self, row: MeasuredCut, full_quality: float) -> tuple[str, ...]:
        """The limits that `row` exceeds."""
        return tuple(limit for limit in self.limits if self.excess(row, limit, full_quality) > 0)

    def describe(self, limit: str) -> str:
        """One limit in words."""
        choice("limit", limit, self.limits or [*_VALUE])
        return _describe(limit, getattr(self, limit))

    def __str__(self) -> str:
        limits = ", ".join(self.describe(limit) for limit in self.limits) or "no limits"
        limits += "" if self.documents is None else f", {self.documents:,} documents"
        return limits if self.prefer is None else f"{limits}, preferring {self.prefer}"


def choose(candidates: Sequence[MeasuredCut], budget: Budget, full_quality: float) -> MeasuredCut:
    """The best of the candidates within the budget; none of the others dominates it. `NothingFits` if there is none.

    A cut that dominates another is within every limit that the other is within, and precedes it in any order of axes.
    """
    if not candidates:
        raise DataError("there are no rows to choose from; name cuts, precisions and vectors that were measured")

    def distance(candidate: MeasuredCut) -> tuple[int, float]:
        broken = budget.broken(candidate, full_quality)
        return len(broken), sum(budget.excess(candidate, limit, full_quality) for limit in broken)

    best = min(candidates, key=lambda candidate: (distance(candidate), _costs(candidate, budget.preferred)))
    limits = budget.broken(best, full_quality)
    if limits:
        raise NothingFits(_nothing_fits(budget, limits, best, full_quality), limits, best)
    if budget.preferred != "latency":
        return best
    fitting = [candidate for candidate in candidates if not budget.broken(candidate, full_quality)]
    # Fewer layers are faster, even where noise hides it.
    tied = sorted(
        _as_fast(_as_fast(fitting, _p95), _p50), key=lambda one: (one.cut.layers, _costs(one, "vectors", "model"))
    )
    return next((one for one in tied if not any(_dominates(other, one) for other in fitting)), best)


def as_fast(
    candidates: Sequence[MeasuredCut], budget: Budget, best: MeasuredCut, full_quality: float
) -> list[MeasuredCut]:
    """Where latency decides: a row of every other depth and precision that is as fast as the best within the noise."""
    fitting = [candidate for candidate in candidates if not budget.broken(candidate, full_quality)]
    if budget.preferred != "latency":
        return []
    tied = {(one.cut.layers, one.precision): one for one in reversed(_as_fast(fitting, _p95))}
    return [one for key, one in sorted(tied.items()) if key != (best.cut.layers, best.precision)]


def _as_fast(candidates: Sequence[MeasuredCut], time: Callable[[MeasuredCut], float]) -> list[MeasuredCut]:
    """The candidates whose time differs from the shortest by less than the noise of the two."""
    fastest = min(candidates, key=time)
    return [one for one in candidates if time(one) <= time(fastest) * (1 + max(one.timing.noise, fastest.timing.noise))]


def _p50(measured: MeasuredCut) -> float:
    return measured.timing.p50_ms


def _p95(measured: MeasuredCut) -> float:
    return measured.timing.p95_ms


def _dominates(one: MeasuredCut, other: MeasuredCut) -> bool:
    ours, theirs = _costs(one), _costs(other)
    return ours != theirs and all(a <= b for a, b in zip(ours, theirs, strict=True))


def neighbours(
    candidates: Sequence[MeasuredCut], budget: Budget, best: MeasuredCut, full_quality: float
) -> tuple[MeasuredCut | None, MeasuredCut | None]:
    """The alternatives to the best cut: the best of those that cost less, and the cheapest of those that are better.

    Cost is what the budget limits first, or latency; its limit and that of quality are lifted, the others still hold.
    """
    axis = budget.preferred if budget.preferred != "quality" else _LIMITED[next(iter(budget.limits), "latency_ms")]
    lifted = {limit for limit, on in _LIMITED.items() if on == axis} | {"quality"}
    allowed = [candidate for candidate in candidates if {*budget.broken(candidate, full_quality)} <= lifted]
    cheaper = [candidate for candidate in allowed if _costs_less(candidate, best, axis)]
    better = [candidate for candidate in allowed if candidate.quality > best.quality]
    return (
        min(cheaper, key=lambda candidate: _costs(candidate, "quality", axis), default=None),
        min(better, key=lambda candidate: _costs(candidate, axis, "quality"), default=None),
    )


def _costs_less(one: MeasuredCut, other: MeasuredCut, axis: str) -> bool:
    """Whether it does; a latency that is lower by less than the noise is not."""
    noise = max(one.timing.noise, other.timing.noise) if axis == "latency" else 0.0
    return one.cost(axis) * (1 + noise) < other.cost(axis)


def _costs(measured: MeasuredCut, *first: str) -> list[float]:
    """The costs on all axes, `first` ones first: a sort key."""
    return [measured.cost(axis) for axis in (*first, *(axis for axis in ORDER if axis not in first))]


def _nothing_fits(budget: Budget, limits: tuple[str, ...], nearest: MeasuredCut, full_quality: float) -> str:
    wanted = " and ".join(budget.describe(limit) for limit in limits)
    others = "" if limits == budget.limits else " within the other limits"
    enough = " and ".join(_enough(budget, limit, nearest, full_quality) for limit in limits)
    return f"nothing measured has {wanted}{others}; the nearest is {nearest} ({nearest.numbers}); allow {enough}"


def _enough(budget: Budget, limit: str, nearest: MeasuredCut, full_quality: float) -> str:
    """A limit in words that `nearest` is within: rounded towards looser, so that it really fits."""
    value = budget.value(limit, nearest)
    if limit in ("latency_ms", "model_mb", "memory_gb"):
        rounded = ceil(100 * value) / 100
    elif limit == "quality":
        share = budget.quality is not None and budget.quality <= 1
        rounded = floor(1000 * value / full_quality) / 1000 if share else floor(10 * value) / 10
    else:
        rounded = floor(value) if limit in _AT_LEAST else value
    return _describe(limit, rounded)


def _describe(limit: str, value: float) -> str:
    if limit == "quality" and value <= 1:
        return f"at least {100 * value:.6g}% of the full quality"
    return _WORDS[limit].format(f"{value:,.10g}")
