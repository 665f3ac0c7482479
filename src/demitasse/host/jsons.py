"""JSON files, with errors that say which file and what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from demitasse.errors import FolderError


def read_json(path: Path) -> Any:
    """The value that a JSON file holds."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as problem:
        raise FolderError(f"{path} is missing; copy or save the model again") from problem
    except (OSError, ValueError) as problem:
        raise FolderError(f"{path} cannot be read as JSON ({problem}); copy or save the model again") from problem


def write_json(path: Path, value: Any) -> None:
    """Write `value` as a JSON file for people to read."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
