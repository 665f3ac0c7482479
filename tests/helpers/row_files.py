"""Files of training rows for tests."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from demitasse.data.pairs import Pairs

ROWS = [("a cup", "a mug"), ("caf\u00e9, to go", 'he said "now"'), ("two\nlines", "tab\there")]


def write(path: Path, text: str) -> Path:
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def json_lines(path: Path, *rows: object) -> Path:
    return write(path, "".join(json.dumps(row) + "\n" for row in rows))


def texts_of(data: Pairs) -> list[tuple[str, ...]]:
    """The texts of every example."""
    return [source[index].texts for source in data.sources for index in range(len(source))]
