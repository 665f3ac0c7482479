"""`Budget`: what a deployment can afford; and the choice of the best measured row within it. No torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite
from typing import TYPE_CHECKING

from demitasse.errors import DataError

if TYPE_CHECKING:
    from demitasse.planning.profile import MeasuredCut

PREFER = ("quality", "latency", "vectors", "model")
# What decides among rows that are alike in what is preferred. Quality comes last: who wants more of it than the least
# prefers it.
ORDER = ("latency", "vectors", "model", "speed", "quality")
COSTS = ("latency_ms", "texts_per_second", "vector_bytes", "model_mb")
_LIMITED = {
    "latency_ms": "latency",
    "texts_per_second": "speed",
    "vector_bytes": "vectors",
    "model_mb": "model",
    "quality": "latency",  # a least quality alone asks for the fastest that has it
}
_AT_LEAST = ("texts_per_second", "quality")
_VALUE: Mapping[str, Callable[[MeasuredCut], float]] = {
    "latency_ms": lambda row: row.timing.p95_ms,
    "texts_per_second": lambda row: row.timing.texts_per_second,
    "vector_bytes": lambda row: row.vector_bytes,
    "model_mb": lambda row: row.model_mb,
    "quality": lambda row: row.quality,
}
_WORDS = {
    "latency_ms": "p95 latency of at most {} ms",
    "texts_per_second": "at least {} texts/s",
    "vector_bytes": "at most {} bytes a vector",
    "model_mb": "a model of at most {} MB",
    "quality": "a quality of at least {}",
}


class NothingFits(DataError):  # noqa: N818 - it says what is so
    """A budget that no measured row keeps, with the limits that bind and the row that comes nearest."""

    def __init__(self, sentence: str, limits: tuple[str, ...], nearest: MeasuredCut) -> None:
        super().__init__(sentence)
        self.limits = limits
        self.nearest = nearest


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What a deployment can afford. Everything is optional.

    `latency_ms` is that of one text, kept by 95 texts of 100 (p95). `quality` is the least one: up to 1 a share of the
    full model's, above 1 points. `prefer` says what is best among the rows that fit: the highest "quality", the lowest
    "latency", the smallest "vectors" or "model". Left out, it is quality if any cost is limited, else latency.

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

    def __post_init__(self) -> None:
        for name in self.limits:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value) or value <= 0:
                raise DataError(f"{name} must be a number above 0, not {value!r}; leave it out where there is no limit")
        if self.quality is not None and self.quality > 100:
            raise DataError(f"quality is a share up to 1 or points up to 100, not {self.quality:g}; write 0.97 or 75")
        if self.prefer is not None and self.prefer not in PREFER:
            raise DataError(f"prefer is one of {', '.join(PREFER)}, not {self.prefer!r}; choose one, or leave it out")

    @property
    def limits(self) -> tuple[str, ...]:
        """The names of the limits that are set."""
        return tuple(name for name in _VALUE if getattr(self, name) is not None)

    @property
    def preferred(self) -> str:
        """What is best among the rows that fit."""
        return self.prefer or ("quality" if any(name in COSTS for name in self.limits) else "latency")

    def allowed(self, limit: str, full_quality: float) -> float:
        """The number that a limit stands for: a share of the full model's quality becomes points."""
        value = float(getattr(self, limit))
        if limit != "quality" or value > 1:
            return value
        if full_quality <= 0:
            raise DataError(
                f"the full model's quality is {full_quality:g}, of which nothing is a share; "
                "give the least quality in points"
            )
        return value * full_quality

    def excess(self, row: MeasuredCut, limit: str, full_quality: float) -> float:
        """How far `row` is beyond a limit, as a share of the limit; 0 where it keeps it."""
        allowed, value = self.allowed(limit, full_quality), _VALUE[limit](row)
        return max(0.0, (allowed - value if limit in _AT_LEAST else value - allowed) / allowed)

    def broken(self, row: MeasuredCut, full_quality: float) -> tuple[str, ...]:
        """The limits that `row` does not keep."""
        return tuple(limit for limit in self.limits if self.excess(row, limit, full_quality) > 0)

    def said(self, limit: str) -> str:
        """One limit in words."""
        return _said(limit, getattr(self, limit))

    def __str__(self) -> str:
        said = ", ".join(self.said(limit) for limit in self.limits) or "no limits"
        return said if self.prefer is None else f"{said}, preferring {self.prefer}"


def choose(rows: Sequence[MeasuredCut], budget: Budget, full_quality: float) -> MeasuredCut:
    """The best of the rows that keep the budget; never one that another of them beats. `NothingFits` if there is none.

    A row that beats another keeps every limit that the other keeps, and comes before it in any order of the axes.
    """
    if not rows:
        raise DataError("there are no rows to choose from; name cuts, precisions and vectors that were measured")

    def distance(row: MeasuredCut) -> tuple[int, float]:
        broken = budget.broken(row, full_quality)
        return len(broken), sum(budget.excess(row, limit, full_quality) for limit in broken)

    best = min(rows, key=lambda row: (distance(row), _costs(row, budget.preferred)))
    limits = budget.broken(best, full_quality)
    if limits:
        raise NothingFits(_nothing(budget, limits, best, full_quality), limits, best)
    return best


def neighbours(
    rows: Sequence[MeasuredCut], budget: Budget, best: MeasuredCut, full_quality: float
) -> tuple[MeasuredCut | None, MeasuredCut | None]:
    """What the best row gives up, on both sides: the best of those that cost less, and the cheapest that are better.

    Cost is what the budget is about, latency if nothing else; its limit and that of quality are lifted, others kept.
    """
    axis = budget.preferred if budget.preferred != "quality" else _LIMITED[next(iter(budget.limits), "latency_ms")]
    lifted = {limit for limit, on in _LIMITED.items() if on == axis} | {"quality"}
    open_to = [row for row in rows if {*budget.broken(row, full_quality)} <= lifted]
    cheaper = [row for row in open_to if row.cost(axis) < best.cost(axis)]
    better = [row for row in open_to if row.quality > best.quality]
    return (
        min(cheaper, key=lambda row: _costs(row, "quality", axis), default=None),
        min(better, key=lambda row: _costs(row, axis, "quality"), default=None),
    )


def _costs(row: MeasuredCut, *first: str) -> list[float]:
    """The costs of a row on all axes, by which rows are put in order."""
    return [row.cost(axis) for axis in (*first, *(axis for axis in ORDER if axis not in first))]


def _nothing(budget: Budget, limits: tuple[str, ...], nearest: MeasuredCut, full_quality: float) -> str:
    said = " and ".join(budget.said(limit) for limit in limits)
    others = "" if limits == budget.limits else " within the other limits"
    enough = " and ".join(_enough(budget, limit, nearest, full_quality) for limit in limits)
    return f"nothing measured has {said}{others}; the nearest is {nearest} ({nearest.numbers}); allow {enough}"


def _enough(budget: Budget, limit: str, row: MeasuredCut, full_quality: float) -> str:
    """A limit in words that `row` would keep: rounded away from the row, never past it."""
    value = _VALUE[limit](row)
    if limit in ("latency_ms", "model_mb"):
        rounded = ceil(100 * value) / 100
    elif limit == "quality":
        share = budget.quality is not None and budget.quality <= 1
        rounded = floor(1000 * value / full_quality) / 1000 if share else floor(10 * value) / 10
    else:
        rounded = floor(value) if limit in _AT_LEAST else value
    return _said(limit, rounded)


def _said(limit: str, value: float) -> str:
    if limit == "quality" and value <= 1:
        return f"at least {100 * value:.6g}% of the full quality"
    return _WORDS[limit].format(f"{value:,.10g}")
