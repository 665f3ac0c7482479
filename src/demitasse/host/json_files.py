"""JSON files, read and written with errors that say which file and what to do."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from demitasse._version import __version__
from demitasse.arguments import path as path_of
from demitasse.errors import DataError, FolderError, reason
from demitasse.host.atomic import new_file

RESULT_SCHEMA = 1  # version of the JSON files of evaluations and profiles
LARGEST_FILE = 16 << 20  # bytes; the objects made from a JSON file take up to twenty times as many
DEEPEST = 64  # levels; what follows the levels of a value by calling itself would run out of stack at some hundreds
MOST_DIGITS = 40  # of a whole number, so that every number fits a float


def read_json(path: Path) -> Any:
    """The value in a JSON file of a model folder."""
    try:
        return _parsed(path)
    except FileNotFoundError as problem:
        raise FolderError(f"{path} is missing; copy or save the model again") from problem
    except (OSError, ValueError, RecursionError) as problem:
        raise FolderError(
            f"{path} cannot be read as JSON ({reason(problem)}); copy or save the model again"
        ) from problem


def _parsed(path: Path, **options: Any) -> Any:
    """The value in a JSON file, within limits that files of demitasse are far from."""
    with path.open("rb") as file:
        data = file.read(LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        raise ValueError(f"it is larger than {LARGEST_FILE >> 20} MB")
    value = json.loads(data.decode("utf-8"), parse_int=_whole, **options)
    level = [value]
    for _ in range(DEEPEST + 1):
        outer = (each for each in level if isinstance(each, (dict, list)))
        level = [inner for each in outer for inner in (each.values() if isinstance(each, dict) else each)]
    if level:
        raise ValueError(f"it is nested more than {DEEPEST} levels deep")
    return value


def _whole(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"it has a whole number of {len(digits)} digits")
    return int(digits)


def write_json(path: Path, value: Any) -> None:
    """Write `value` as a JSON file for people to read."""
    path.write_bytes(_encoded(json.dumps(value, indent=2, ensure_ascii=False) + "\n"))


def _finite(written: str) -> float:
    number = float(written)
    if not math.isfinite(number):
        raise ValueError(f"{written[:20]} is not a finite number")
    return number


def with_header(kind: str, plain: dict[str, Any]) -> dict[str, Any]:
    """`plain` with the fields in front that `read_result` checks.

    >>> with_header("profile", {"model": "tiny"})
    {'schema': 1, 'kind': 'profile', 'model': 'tiny'}
    """
    return {"schema": RESULT_SCHEMA, "kind": kind} | plain


def json_text(plain: dict[str, Any]) -> str:
    """Plain values as JSON."""
    return _encoded(json.dumps(plain, indent=1, ensure_ascii=False, allow_nan=False) + "\n").decode()


def _encoded(text: str) -> bytes:
    """JSON as UTF-8; what has no such form, as in the name of a folder, is escaped, and JSON reads that back."""
    return text.encode("utf-8", "backslashreplace")


def save_result(plain: dict[str, Any], path: str | Path) -> None:
    """Write plain values to a JSON file."""
    with new_file(path_of("path", path)) as file:
        file.write(json_text(plain).encode())


def read_result(path: str | Path, kind: str, maker: str) -> dict[str, Any]:
    """The plain values of a file of this kind; `maker` is the command that writes such files."""
    path = path_of("path", path)
    article = "an" if kind[0] in "aeiou" else "a"
    try:
        plain = _parsed(path, parse_constant=_finite, parse_float=_finite)
    except (OSError, ValueError, RecursionError) as problem:
        cause = f"cannot be read as {article} {kind} ({reason(problem)})"
        raise DataError(f"{path} {cause}; give a file that {maker} wrote") from None
    if not (isinstance(plain, dict) and (plain.get("kind"), plain.get("schema")) == (kind, RESULT_SCHEMA)):
        raise DataError(
            f"{path} is not {article} {kind} of schema {RESULT_SCHEMA}, which demitasse {__version__} reads; "
            f"{maker} again"
        )
    return plain
