"""The gate of `demitasse check`: which rows of a profile break which limit, or fell behind an earlier profile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from demitasse.errors import DataError
from demitasse.planning.budget import Budget
from demitasse.planning.profile import MeasuredCut, Profile


@dataclass(frozen=True)
class Failure:
    """A row and one thing that is wrong with it, in words."""

    row: MeasuredCut
    value: str
    allowed: str


@dataclass(frozen=True)
class Gate:
    """What rows must keep. Shares are of the row that is compared: the same one of the baseline, or else the full one.

    >>> from demitasse.cut import Cut
    >>> from demitasse.planning.profile import Timing
    >>> rows = [
    ...     MeasuredCut(Cut(layers, 32), "int8", "float32", 70.0 + layers, Timing(layers, layers, 900.0, 0.02), 2, 128)
    ...     for layers in (1, 2)
    ... ]
    >>> profile = Profile("tiny", "", "Spearman", 0.0, 32, tuple(rows))
    >>> gate = Gate(Budget(latency_ms=1.5), max_drop=0.01)
    >>> [(str(failure.row.cut), failure.value) for failure in gate.failures(profile, rows)]
    [('1x32', 'quality 1.39% below the full model'), ('2x32', 'p95 2.000 ms')]
    """

    limits: Budget
    max_drop: float | None = None  # of quality
    max_slowdown: float | None = None  # of one text and of batches, beyond the noise of both profiles
    baseline: Profile | None = None

    def __post_init__(self) -> None:
        if not self.limits.limits and self.max_drop is None and self.max_slowdown is None:
            raise DataError("there is nothing to check; give a limit, such as --max-drop 1% or --latency-ms 5")
        if self.max_slowdown is not None and self.baseline is None:
            raise DataError("--max-slowdown compares with an earlier profile; give that too, as --baseline old.json")

    def __str__(self) -> str:
        said = [self.limits.said(limit) for limit in self.limits.limits]
        if self.max_drop is not None:
            said.append(f"quality at most {_percent(self.max_drop)} below {self._compared}")
        if self.max_slowdown is not None:
            said.append(f"at most {_percent(self.max_slowdown)} slower than the baseline")
        return ", ".join(said)

    def failures(self, profile: Profile, rows: Sequence[MeasuredCut]) -> list[Failure]:
        """Everything that is wrong with the rows of a profile; nothing where all is well."""
        if self.baseline is not None:
            _check_comparable(profile, rows, self.baseline)
        return [failure for row in rows for failure in self._of(row, profile)]

    def elsewhere(self, profile: Profile) -> bool:
        """Whether times are compared with those of another machine."""
        if self.baseline is None or self.max_slowdown is None:
            return False
        return _machine(self.baseline) != _machine(profile)

    @property
    def _compared(self) -> str:
        return "the full model" if self.baseline is None else "the baseline"

    def _of(self, row: MeasuredCut, profile: Profile) -> Iterator[Failure]:
        for limit in self.limits.broken(row, profile.full.quality):
            yield Failure(row, _value(row, limit, profile), _allowed(limit, getattr(self.limits, limit)))
        earlier = profile.full if self.baseline is None else _same(row, self.baseline)
        if self.max_drop is not None:
            if earlier.quality <= 0:
                raise DataError(f"the quality of {earlier} is {earlier.quality:g}, below which nothing is a share")
            drop = 1 - row.quality / earlier.quality
            if drop > self.max_drop:
                yield Failure(row, f"quality {drop:.2%} below {self._compared}", f"at most {_percent(self.max_drop)}")
        if self.max_slowdown is not None:
            ours, theirs = row.timing, earlier.timing
            noise = ours.noise + theirs.noise
            for name, slowdown in (
                ("p95", ours.p95_ms / theirs.p95_ms - 1),
                ("batches", theirs.texts_per_second / ours.texts_per_second - 1),
            ):
                if slowdown > self.max_slowdown + noise:
                    allowed = f"at most {_percent(self.max_slowdown)}, and noise of {noise:.1%}"
                    yield Failure(row, f"{name} {slowdown:.1%} slower than the baseline", allowed)


def _value(row: MeasuredCut, limit: str, profile: Profile) -> str:
    """What a row has where a limit is; with digits enough to see by how little it is broken."""
    return {
        "latency_ms": f"p95 {row.timing.p95_ms:.3f} ms",
        "texts_per_second": f"{row.timing.texts_per_second:,.1f} texts/s",
        "vector_bytes": f"{row.vector_bytes:,} bytes a vector",
        "model_mb": f"{row.model_mb:.2f} MB",
        "quality": f"quality {row.quality:.2f}"
        + (f", {profile.share(row):.2%} of full" if profile.full.quality > 0 else ""),
    }[limit]


def _allowed(limit: str, value: float) -> str:
    if limit == "quality":
        return f"at least {_percent(value)}" if value <= 1 else f"at least {value:g}"
    return f"at least {value:,.10g}" if limit == "texts_per_second" else f"at most {value:,.10g}"


def _percent(share: float) -> str:
    return f"{100 * share:.6g}%"


def _check_comparable(profile: Profile, rows: Sequence[MeasuredCut], baseline: Profile) -> None:
    """Refuse a baseline that measured something else, or other rows: a gate must not pass what it did not look at."""
    if baseline.measure != profile.measure:
        raise DataError(
            f"the profile has {profile.measure!r} for quality and the baseline {baseline.measure!r}; measure both alike"
        )
    theirs, ours = ({_place(row): row for row in held} for held in (baseline.rows, rows))
    new = next((row for place, row in ours.items() if place not in theirs), None)
    if new is not None:
        raise DataError(f"the baseline lacks {new}; measure both at the same cuts, or choose rows that both have")
    gone = next((row for place, row in theirs.items() if place not in ours), None)
    if len(rows) == len(profile.rows) and gone is not None:
        raise DataError(f"the profile lacks {gone} of the baseline; measure it too, or choose rows that both have")


def _machine(profile: Profile) -> tuple[Any, ...]:
    """What times depend on most; memory and system may change on the same machine."""
    told = profile.made.get("machine")
    return (told.get("processor"), told.get("cores")) if isinstance(told, Mapping) else (told,)


def _same(row: MeasuredCut, profile: Profile) -> MeasuredCut:
    return next(one for one in profile.rows if _place(one) == _place(row))


def _place(row: MeasuredCut) -> tuple[object, ...]:
    return row.cut, row.precision, row.vectors
