"""Manifests changed by hand, for tests of what is behind the check of every file."""

from __future__ import annotations

import json
from pathlib import Path

from demitasse.encoding.manifest import MANIFEST, Manifest


def without_hashes(folder: Path) -> Path:
    """`folder` with a manifest as before it listed hashes; of a model on torch it listed no files either."""
    path = folder / MANIFEST
    fields = json.loads(path.read_text())
    fields.pop("sha256", None)
    if "kind" not in fields:
        fields.pop("files", None)
    path.write_text(json.dumps(fields))
    return folder


def listed_again(folder: Path) -> Path:
    """`folder` with a manifest of the files that it has now."""
    manifest = Manifest.read(folder)
    assert manifest is not None
    manifest.with_files().write()
    return folder
