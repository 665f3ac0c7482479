"""The gate of `demitasse check`: which measured cuts exceed which limit, or are worse than in an earlier profile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from demitasse.errors import DataError
from demitasse.planning.budget import Budget
from demitasse.planning.profile import MeasuredCut, Profile


@dataclass(frozen=True)
class Failure:
    """A measured cut and one thing that is wrong with it, in words."""

    measured: MeasuredCut
    value: str
    allowed: str


@dataclass(frozen=True)
class Gate:
    """What measured cuts must satisfy, compared with the same cut of the baseline or, without one, the full model.

    >>> from demitasse.cut import Cut
    >>> from demitasse.planning.profile import Timing
    >>> rows = [
    ...     MeasuredCut(Cut(layers, 32), "int8", "float32", 70.0 + layers, Timing(layers, layers, 900.0, 0.02), 2, 128)
    ...     for layers in (1, 2)
    ... ]
    >>> profile = Profile("tiny", "", "Spearman", 0.0, 32, tuple(rows))
    >>> gate = Gate(Budget(latency_ms=1.5), max_drop=0.01)
    >>> [(str(failure.measured.cut), failure.value) for failure in gate.failures(profile, rows)]
    [('1x32', 'quality 1.39% below the full model'), ('2x32', 'p95 2.000 ms')]
    """

    limits: Budget
    max_drop: float | None = None  # of quality, as a share
    max_slowdown: float | None = None  # of latency and batch speed, as a share, beyond the noise of both profiles
    baseline: Profile | None = None

    def __post_init__(self) -> None:
        if not self.limits.limits and self.max_drop is None and self.max_slowdown is None:
            raise DataError("there is nothing to check; give a limit, such as --max-drop 1% or --latency-ms 5")
        if self.max_slowdown is not None and self.baseline is None:
            raise DataError("--max-slowdown needs an earlier profile to compare with; give it as --baseline old.json")

    def __str__(self) -> str:
        conditions = [self.limits.describe(limit) for limit in self.limits.limits]
        if self.max_drop is not None:
            conditions.append(f"quality at most {_percent(self.max_drop)} below {self._compared}")
        if self.max_slowdown is not None:
            conditions.append(f"at most {_percent(self.max_slowdown)} slower than the baseline")
        return ", ".join(conditions)

    def failures(self, profile: Profile, checked: Sequence[MeasuredCut]) -> list[Failure]:
        """Everything that is wrong with the checked cuts of a profile; empty if they all pass."""
        if self.baseline is not None:
            _check_comparable(profile, checked, self.baseline)
        return [failure for measured in checked for failure in self._failures_of(measured, profile)]

    def elsewhere(self, profile: Profile) -> bool:
        """Whether times are compared with those of a different machine."""
        if self.baseline is None or self.max_slowdown is None:
            return False
        return _machine(self.baseline) != _machine(profile)

    @property
    def _compared(self) -> str:
        return "the full model" if self.baseline is None else "the baseline"

    def _failures_of(self, measured: MeasuredCut, profile: Profile) -> Iterator[Failure]:
        for limit in self.limits.broken(measured, profile.full.quality):
            yield Failure(measured, _value(measured, limit, profile), _allowed(limit, getattr(self.limits, limit)))
        reference = profile.full if self.baseline is None else _same_cut(measured, self.baseline)
        if self.max_drop is not None:
            if reference.quality <= 0:
                raise DataError(
                    f"the quality of {reference} is {reference.quality:g}, so a drop is not a share of it; "
                    "give --min-quality in points instead of --max-drop"
                )
            drop = 1 - measured.quality / reference.quality
            if drop > self.max_drop:
                yield Failure(
                    measured, f"quality {drop:.2%} below {self._compared}", f"at most {_percent(self.max_drop)}"
                )
        if self.max_slowdown is not None:
            ours, theirs = measured.timing, reference.timing
            noise = ours.noise + theirs.noise
            for name, slowdown in (
                ("p95", ours.p95_ms / theirs.p95_ms - 1),
                ("batches", theirs.texts_per_second / ours.texts_per_second - 1),
            ):
                if slowdown > self.max_slowdown + noise:
                    allowed = f"at most {_percent(self.max_slowdown)}, plus {noise:.1%} noise"
                    yield Failure(measured, f"{name} {slowdown:.1%} slower than the baseline", allowed)


def _value(measured: MeasuredCut, limit: str, profile: Profile) -> str:
    """The measured value that a limit is about, with enough digits to see by how little it is exceeded."""
    return {
        "latency_ms": f"p95 {measured.timing.p95_ms:.3f} ms",
        "texts_per_second": f"{measured.timing.texts_per_second:,.1f} texts/s",
        "vector_bytes": f"{measured.vector_bytes:,} bytes per vector",
        "model_mb": f"{measured.model_mb:.2f} MB",
        "quality": f"quality {measured.quality:.2f}"
        + (f", {profile.share(measured):.2%} of full" if profile.full.quality > 0 else ""),
    }[limit]


def _allowed(limit: str, value: float) -> str:
    if limit == "quality":
        return f"at least {_percent(value)}" if value <= 1 else f"at least {value:g}"
    return f"at least {value:,.10g}" if limit == "texts_per_second" else f"at most {value:,.10g}"


def _percent(share: float) -> str:
    return f"{100 * share:.6g}%"


def _check_comparable(profile: Profile, checked: Sequence[MeasuredCut], baseline: Profile) -> None:
    """Refuse a baseline with another measure or other cuts: a gate must not pass what it did not look at."""
    if baseline.measure != profile.measure:
        raise DataError(
            f"quality is {profile.measure!r} in the profile and {baseline.measure!r} in the baseline; "
            "measure both on the same data"
        )
    theirs, ours = ({one.variant: one for one in entries} for entries in (baseline.rows, checked))
    new = next((one for variant, one in ours.items() if variant not in theirs), None)
    if new is not None:
        raise DataError(f"the baseline lacks {new}; measure both at the same cuts, or choose rows that both have")
    missing = next((one for variant, one in theirs.items() if variant not in ours), None)
    if len(checked) == len(profile.rows) and missing is not None:
        raise DataError(f"the profile lacks {missing} of the baseline; measure it too, or choose rows that both have")


def _machine(profile: Profile) -> tuple[Any, ...]:
    """What times depend on most; memory and system may change on the same machine."""
    recorded = profile.made.get("machine")
    return (recorded.get("processor"), recorded.get("cores")) if isinstance(recorded, Mapping) else (recorded,)


def _same_cut(measured: MeasuredCut, profile: Profile) -> MeasuredCut:
    return next(one for one in profile.rows if one.variant == measured.variant)
