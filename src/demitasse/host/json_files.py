"""JSON files, read and written with errors that say which file and what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from demitasse._version import __version__
from demitasse.errors import DataError, FolderError, reason
from demitasse.host.atomic import new_file

RESULT_SCHEMA = 1  # version of the JSON files of evaluations and profiles


def read_json(path: Path) -> Any:
    """The value in a JSON file of a model folder."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as problem:
        raise FolderError(f"{path} is missing; copy or save the model again") from problem
    except (OSError, ValueError, RecursionError) as problem:
        raise FolderError(f"{path} cannot be read as JSON ({problem}); copy or save the model again") from problem


def write_json(path: Path, value: Any) -> None:
    """Write `value` as a JSON file for people to read."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def with_header(kind: str, plain: dict[str, Any]) -> dict[str, Any]:
    """`plain` with the fields in front that `read_result` checks.

    >>> with_header("profile", {"model": "tiny"})
    {'schema': 1, 'kind': 'profile', 'model': 'tiny'}
    """
    return {"schema": RESULT_SCHEMA, "kind": kind} | plain


def json_text(plain: dict[str, Any]) -> str:
    """Plain values as JSON."""
    text = json.dumps(plain, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    # The name of a folder may not be valid UTF-8; what cannot be encoded is escaped, and JSON reads that back.
    return text.encode("utf-8", "backslashreplace").decode()


def save_result(plain: dict[str, Any], path: str | Path) -> None:
    """Write plain values to a JSON file."""
    with new_file(Path(path)) as file:
        file.write(json_text(plain).encode())


def read_result(path: str | Path, kind: str, maker: str) -> dict[str, Any]:
    """The plain values of a file of this kind; `maker` is the command that writes such files."""
    article = "an" if kind[0] in "aeiou" else "a"
    try:
        plain = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        cause = f"cannot be read as {article} {kind} ({reason(problem)})"
        raise DataError(f"{path} {cause}; give a file that {maker} wrote") from None
    if not (isinstance(plain, dict) and (plain.get("kind"), plain.get("schema")) == (kind, RESULT_SCHEMA)):
        raise DataError(
            f"{path} is not {article} {kind} of schema {RESULT_SCHEMA}, which demitasse {__version__} reads; "
            f"{maker} again"
        )
    return plain
