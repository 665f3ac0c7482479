"""Handmade and random profiles, for the tests of everything that reads one."""

from __future__ import annotations

from hypothesis import strategies as st

from demitasse.cut import Cut, grid
from demitasse.encoding.precision import PRECISIONS
from demitasse.encoding.vectors import STORED, vector_bytes
from demitasse.planning.budget import PREFER, Budget
from demitasse.planning.profile import MeasuredCut, Profile, Timing

# Few values, so that ties are frequent on every axis.
_FEW = st.sampled_from([0.5, 1.0, 2.0, 4.0])
_QUALITIES = st.sampled_from([10.0, 50.0, 75.0, 80.0])
_TIMINGS = st.builds(Timing, p50_ms=_FEW, p95_ms=_FEW, texts_per_second=_FEW, noise=st.sampled_from([0.0, 0.02, 0.5]))
_VARIANTS = st.tuples(
    st.builds(Cut, st.integers(0, 3), st.sampled_from([8, 32])), st.sampled_from(PRECISIONS), st.sampled_from(STORED)
)


def measured_cuts(quality: st.SearchStrategy[float] = _QUALITIES) -> st.SearchStrategy[MeasuredCut]:
    """Measured cuts with many ties."""
    return st.builds(
        lambda variant, *numbers: MeasuredCut(*variant, *numbers),
        _VARIANTS,
        quality,
        _TIMINGS,
        st.sampled_from([1.0, 2.0, 3.5]),
        st.sampled_from([4, 8, 64]),
    )


def profiles(quality: st.SearchStrategy[float] = _QUALITIES) -> st.SearchStrategy[Profile]:
    """Profiles of up to twenty different measured cuts."""
    several = st.lists(measured_cuts(quality), min_size=1, max_size=20, unique_by=lambda one: one.variant)
    return several.map(lambda measured: Profile("tiny", "5f0c", "Spearman", 1.0, 32, tuple(measured)))


def budgets() -> st.SearchStrategy[Budget]:
    """Budgets near the values of `measured_cuts`, most of their limits left out."""
    return st.builds(
        Budget,
        latency_ms=st.none() | st.sampled_from([0.4, 1, 1.5, 4]),
        texts_per_second=st.none() | st.sampled_from([0.5, 1, 3, 5]),
        vector_bytes=st.none() | st.sampled_from([2, 4, 10, 64]),
        model_mb=st.none() | st.sampled_from([0.5, 1, 3]),
        quality=st.none() | st.sampled_from([0.2, 0.97, 1, 20, 75, 90]),
        prefer=st.none() | st.sampled_from(PREFER),
    )


def made_profile(slower: float = 1.0, worse: float = 0.0, precisions: tuple[str, ...] = ("fp32", "int8")) -> Profile:
    """A realistic profile: quality and times rise with layers, int8 is faster, smaller vectors are a little worse.

    `slower` multiplies the times, and `worse` is subtracted from every quality.
    """
    measured = []
    for precision in precisions:
        for cut in grid([1, 2, 3], [32, 128]):
            ms = slower * (1.0 if precision == "fp32" else 0.5) * cut.layers
            timing = Timing(p50_ms=ms * 0.8, p95_ms=ms, texts_per_second=1000 / ms, noise=0.02)
            for number, kind in enumerate(STORED):
                quality = 60 + 6 * cut.layers + cut.dims / 64 - 0.5 * number - (precision == "int8") - worse
                size = 10.0 * cut.layers * (1 if precision == "fp32" else 0.25)
                measured.append(MeasuredCut(cut, precision, kind, quality, timing, size, vector_bytes(cut.dims, kind)))
    return Profile(
        model="tiny",
        fingerprint="5f0c",
        measure="Spearman, built-in sample",
        quality_error=1.5,
        batch=32,
        rows=tuple(measured),
        made={"machine": {"processor": "A Processor", "cores": 2}, "date": "2026-01-31T10:00:00+00:00"},
    )
