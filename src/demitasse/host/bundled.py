"""The sentences that come with demitasse: everyday topics, for the demo and as a sample of text."""

from __future__ import annotations

from pathlib import Path

_FILE = Path(__file__).parents[1] / "assets" / "corpus.txt"


def corpus() -> list[str]:
    """Some hundreds of sentences.

    >>> len(corpus()) > 200
    True
    """
    return [line for line in _FILE.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
