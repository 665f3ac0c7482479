"""Rows that cannot be encoded: what is said about each of them, in a file beside the vectors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class BadRow:
    """Where a row is, and why it was left out."""

    source: str
    location: str  # such as "line 17"
    reason: str


def as_lines(rows: Sequence[BadRow]) -> bytes:
    """Bad rows as JSON lines."""
    lines = (json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in rows)
    return "".join(lines).encode("utf-8", "backslashreplace")
