"""`Hit`: one text that a search found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Hit:
    """A text that a search found; `score` is its cosine with the query.

    >>> hit = Hit("espresso", 0.8712, "a small strong coffee", {"year": 1901})
    >>> hit.id, hit.metadata["year"]
    ('espresso', 1901)
    """

    id: str
    score: float
    text: str
    metadata: Mapping[str, Any]

    def as_plain(self) -> dict[str, Any]:
        """The same as plain values, ready for JSON."""
        return asdict(self)
