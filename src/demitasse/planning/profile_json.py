"""Profiles as JSON files; docs/planning.md explains every field. No torch."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from demitasse.cut import Cut
from demitasse.errors import CutError, DataError, reason
from demitasse.host.json_files import read_result, with_header
from demitasse.planning.profile import MeasuredCut, Profile, Timing


def as_plain(profile: Profile) -> dict[str, Any]:
    """A profile as plain JSON values."""
    plain = {
        "model": profile.model,
        "fingerprint": profile.fingerprint,
        "measure": profile.measure,
        "quality_error": profile.quality_error,
        "batch": profile.batch,
        "made": dict(profile.made),
        "rows": [measured_as_plain(measured) for measured in profile.rows],
        "others": [measured_as_plain(measured) for measured in profile.others],
    }
    return with_header("profile", plain)


def measured_as_plain(measured: MeasuredCut) -> dict[str, Any]:
    """A measured cut as plain JSON values; the name only if it has one."""
    name = {} if measured.name is None else {"name": measured.name}
    return name | {
        "cut": str(measured.cut),
        "precision": measured.precision,
        "vectors": measured.vectors,
        "quality": measured.quality,
        **asdict(measured.timing),
        "model_mb": measured.model_mb,
        "vector_bytes": measured.vector_bytes,
    }


def read_profile(path: str | Path) -> Profile:
    """Read a profile from a file.

    >>> measured = MeasuredCut(Cut(3, 32), "int8", "binary", 71.5, Timing(0.4, 0.6, 2500.0, 0.02), 1.5, 4)
    >>> profile = Profile("tiny", "5f0c", "Spearman, built-in sample", 1.2, 32, (measured,))
    >>> profile.save(out)
    >>> read_profile(out) == profile
    True
    """
    plain = read_result(path, "profile", "measure")
    try:
        return _profile(plain)
    except KeyError as problem:
        raise DataError(f"{path} is a profile that lacks {problem}; measure again") from None
    except (TypeError, AttributeError, CutError, DataError) as problem:
        raise DataError(f"{path} is a profile that cannot be used ({reason(problem)}); measure again") from None


def _profile(plain: dict[str, Any]) -> Profile:
    return Profile(
        model=_text(plain, "model"),
        fingerprint=_text(plain, "fingerprint"),
        measure=_text(plain, "measure"),
        quality_error=_number(plain, "quality_error"),
        batch=_whole(plain, "batch"),
        rows=tuple(_measured(entry) for entry in plain["rows"]),
        others=tuple(_measured(entry, name=_text(entry, "name")) for entry in plain["others"]),
        made=dict(plain["made"]),
    )


def _measured(entry: dict[str, Any], name: str | None = None) -> MeasuredCut:
    return MeasuredCut(
        cut=Cut.parse(entry["cut"]),
        precision=entry["precision"],
        vectors=entry["vectors"],
        quality=_number(entry, "quality"),
        timing=Timing(
            p50_ms=_number(entry, "p50_ms"),
            p95_ms=_number(entry, "p95_ms"),
            texts_per_second=_number(entry, "texts_per_second"),
            noise=_number(entry, "noise"),
        ),
        model_mb=_number(entry, "model_mb"),
        vector_bytes=_whole(entry, "vector_bytes"),
        name=name,
    )


def _text(entry: dict[str, Any], name: str) -> str:
    value = entry[name]
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, not {value!r}")
    return value


def _number(entry: dict[str, Any], name: str) -> float:
    value = entry[name]
    # bool is an int in Python, but true is not a measurement.
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number, not {value!r}")
    return float(value)


def _whole(entry: dict[str, Any], name: str) -> int:
    value = entry[name]
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, not {value!r}")
    return value
