"""Results as JSON files for people to read: each says its kind and schema, and is whole or not there. No torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from demitasse._version import __version__
from demitasse.errors import DataError, reason
from demitasse.host.atomic import new_file

SCHEMA = 1


def headed(kind: str, plain: dict[str, Any]) -> dict[str, Any]:
    """`plain` with what `read_result` goes by in front.

    >>> headed("profile", {"model": "tiny"})
    {'schema': 1, 'kind': 'profile', 'model': 'tiny'}
    """
    return {"schema": SCHEMA, "kind": kind} | plain


def written(plain: dict[str, Any]) -> str:
    """Plain values as JSON."""
    text = json.dumps(plain, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    # A folder may have a name that is no text; what cannot be written as UTF-8 is escaped, which JSON reads back.
    return text.encode("utf-8", "backslashreplace").decode()


def save(plain: dict[str, Any], path: str | Path) -> None:
    """Write plain values to a JSON file."""
    with new_file(Path(path)) as file:
        file.write(written(plain).encode())


def read_result(path: str | Path, kind: str, maker: str) -> dict[str, Any]:
    """The plain values of a file of this kind; `maker` is what writes such files."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        article = "an" if kind[0] in "aeiou" else "a"
        cause = f"cannot be read as {article} {kind} ({reason(problem)})"
        raise DataError(f"{path} {cause}; give a file that {maker} wrote") from None
    if not (isinstance(found, dict) and (found.get("kind"), found.get("schema")) == (kind, SCHEMA)):
        wanted = f"{kind} of schema {SCHEMA}, which is what demitasse {__version__} reads"
        raise DataError(f"{path} is no {wanted}; {maker} again")
    return found
