"""Profiles as JSON files; docs/planning.md explains every field. No torch."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from demitasse._version import __version__
from demitasse.atomic import new_file
from demitasse.cut import Cut
from demitasse.errors import CutError, DataError, reason
from demitasse.profile import Profile, Row, Timing

SCHEMA = 1


def save(profile: Profile, path: str | Path) -> None:
    """Write a profile to a JSON file, whole or not at all."""
    with new_file(Path(path)) as file:
        file.write(written(profile).encode())


def written(profile: Profile) -> str:
    """A profile as JSON for people to read."""
    text = json.dumps(as_plain(profile), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    # A folder may have a name that is no text; what cannot be written as UTF-8 is escaped, which JSON reads back.
    return text.encode("utf-8", "backslashreplace").decode()


def as_plain(profile: Profile) -> dict[str, Any]:
    """A profile as values that JSON has."""
    return {
        "schema": SCHEMA,
        "kind": "profile",
        "model": profile.model,
        "fingerprint": profile.fingerprint,
        "measure": profile.measure,
        "quality_error": profile.quality_error,
        "batch": profile.batch,
        "made": dict(profile.made),
        "rows": [row_as_plain(row) for row in profile.rows],
        "others": [row_as_plain(row) for row in profile.others],
    }


def row_as_plain(row: Row) -> dict[str, Any]:
    """A row as values that JSON has; a name only where there is one."""
    named = {} if row.name is None else {"name": row.name}
    return named | {
        "cut": str(row.cut),
        "precision": row.precision,
        "vectors": row.vectors,
        "quality": row.quality,
        **asdict(row.timing),
        "model_mb": row.model_mb,
        "vector_bytes": row.vector_bytes,
    }


def read_profile(path: str | Path) -> Profile:
    """The profile that a file holds.

    >>> row = Row(Cut(3, 32), "int8", "binary", 71.5, Timing(0.4, 0.6, 2500.0, 0.02), 1.5, 4)
    >>> profile = Profile("tiny", "5f0c", "Spearman, built-in sample", 1.2, 32, (row,))
    >>> profile.save(out)
    >>> read_profile(out) == profile
    True
    """
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        raise DataError(
            f"{path} cannot be read as a profile ({reason(problem)}); give a file that measure wrote"
        ) from None
    schema = found.get("schema") if isinstance(found, dict) and found.get("kind") == "profile" else None
    if schema != SCHEMA:
        raise DataError(
            f"{path} is no profile of schema {SCHEMA}, which is what demitasse {__version__} reads; measure again"
        )
    try:
        return _profile(found)
    except KeyError as problem:
        raise DataError(f"{path} is a profile that lacks {problem}; measure again") from None
    except (TypeError, AttributeError, CutError, DataError) as problem:
        raise DataError(f"{path} is a profile that cannot be used ({reason(problem)}); measure again") from None


def _profile(found: dict[str, Any]) -> Profile:
    return Profile(
        model=_text(found, "model"),
        fingerprint=_text(found, "fingerprint"),
        measure=_text(found, "measure"),
        quality_error=_number(found, "quality_error"),
        batch=_whole(found, "batch"),
        rows=tuple(_row(entry) for entry in found["rows"]),
        others=tuple(_row(entry, name=_text(entry, "name")) for entry in found["others"]),
        made=dict(found["made"]),
    )


def _row(entry: dict[str, Any], name: str | None = None) -> Row:
    return Row(
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
        raise TypeError(f"{name} must be a text, not {value!r}")
    return value


def _number(entry: dict[str, Any], name: str) -> float:
    value = entry[name]
    # bool is an int in Python, but true is no measurement.
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number, not {value!r}")
    return float(value)


def _whole(entry: dict[str, Any], name: str) -> int:
    value = entry[name]
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, not {value!r}")
    return value
