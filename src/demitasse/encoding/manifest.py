"""`demitasse.json`: what a folder of ours says about itself, whichever kind it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from demitasse._version import __version__
from demitasse.errors import FolderError
from demitasse.host.json_files import read_json

SCHEMA = 1
MARK = "demitasse.json"
# Where a model comes from, what was fitted or trained: handed on from folder to folder.
RECORD = ("cuts", "objective", "data", "source")


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of `folder`; `None` if it is not one of ours."""
    if not (folder / MARK).is_file():
        return None
    manifest = read_json(folder / MARK)
    schema = manifest.get("schema") if isinstance(manifest, dict) else None
    if schema != SCHEMA:
        raise FolderError(
            f"{folder / MARK} has schema {schema!r}, and this demitasse {__version__} reads schema {SCHEMA}; "
            "pip install --upgrade demitasse, or save or export the model again"
        )
    assert isinstance(manifest, dict)
    return manifest


def record_of(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The record that a manifest holds."""
    return {key: manifest[key] for key in RECORD if manifest.get(key)}
