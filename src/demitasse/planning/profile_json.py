"""Profiles as JSON files; docs/planning.md explains every field. No torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from demitasse.encoding.precision import PRECISIONS
from demitasse.encoding.vectors import STORED
from demitasse.errors import DataError, reason
from demitasse.host.fields import Fields
from demitasse.host.json_files import read_result, with_header
from demitasse.planning.profile import MeasuredCut, Profile, Timing

_Made = TypeVar("_Made")


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

    >>> from demitasse.cut import Cut
    >>> measured = MeasuredCut(Cut(3, 32), "int8", "binary", 71.5, Timing(0.4, 0.6, 2500.0, 0.02), 1.5, 4)
    >>> profile = Profile("tiny", "5f0c", "Spearman, built-in sample", 1.2, 32, (measured,))
    >>> profile.save(out)
    >>> read_profile(out) == profile
    True
    """
    return _profile(Fields(read_result(path, "profile", "measure"), path, "measure again", DataError))


def _profile(fields: Fields) -> Profile:
    values: dict[str, Any] = {
        "model": fields.name("model"),
        "fingerprint": fields.text("fingerprint"),
        "measure": fields.text("measure"),
        "quality_error": fields.number("quality_error", least=0),
        "batch": fields.whole("batch", least=1),
        "rows": tuple(_measured(entry) for entry in fields.each("rows")),
        "others": tuple(_measured(entry, name=entry.name("name")) for entry in fields.each("others")),
        "made": fields.inside("made").all(),
    }
    return _usable(fields, Profile, values)


def _measured(entry: Fields, name: str | None = None) -> MeasuredCut:
    timing = Timing(*(entry.number(part, least=0) for part in ("p50_ms", "p95_ms", "texts_per_second", "noise")))
    values = {
        "cut": entry.cut("cut"),
        "precision": entry.choice("precision", PRECISIONS),
        "vectors": entry.choice("vectors", STORED),
        "quality": entry.number("quality"),
        "timing": timing,
        "model_mb": entry.number("model_mb", least=0),
        "vector_bytes": entry.whole("vector_bytes", least=1),
        "name": name,
    }
    return _usable(entry, MeasuredCut, values)


def _usable(fields: Fields, kind: Callable[..., _Made], values: dict[str, Any]) -> _Made:
    try:
        return kind(**values)
    except DataError as problem:  # each value is what it should be, but not all of them together
        raise fields.problem(f"is a profile that cannot be used ({reason(problem)})") from None
