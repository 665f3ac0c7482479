"""Folders as values, to be compared and copied."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

Tree = dict[str, str]


def tree(path: Path) -> Tree:
    """Every file and folder at and below `path`, with the hash of its bytes; {} if there is nothing."""
    if not path.exists():
        return {}
    found = {}
    for inside in (path, *path.rglob("*")):
        content = "folder" if inside.is_dir() else hashlib.sha256(inside.read_bytes()).hexdigest()
        found[str(inside.relative_to(path))] = content
    return found


def make_equal(folder: Path, template: Path) -> None:
    """Make `folder` what `template` is."""
    for old in folder.iterdir() if folder.is_dir() else ():
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    shutil.copytree(template, folder, dirs_exist_ok=True)
