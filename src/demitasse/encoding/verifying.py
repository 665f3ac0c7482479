"""`verify`: every file of a model folder compared with what its manifest lists."""

from __future__ import annotations

import os
from pathlib import Path

from demitasse.encoding.listed_files import ListedFiles
from demitasse.encoding.loading import folder_of
from demitasse.encoding.manifest import MANIFEST, Manifest
from demitasse.errors import FolderError

_NOTES = (".md", ".rst")  # about the model, not part of it


def verify(model: str | Path | None = None) -> dict[str, str]:
    """What is wrong with each file of a model folder, by name; nothing if the folder is whole.

    Every file is read and its sha256 compared with the one in `demitasse.json`; without a name, those of the built-in
    model. A file that is not listed is named too, unless it is hidden, a `README.md` or a licence.

    >>> verify()
    {}
    >>> encoder.save(out)
    >>> _ = (out / "config.json").write_text("{}")
    >>> list(verify(out))
    ['config.json']
    """
    place = folder_of(model)
    manifest = Manifest.read(place)
    if manifest is None:
        raise FolderError(f"{place} has no {MANIFEST}, so there is nothing to compare it with; save the model again")
    if not manifest.sha256:
        raise FolderError(f"{place / MANIFEST} lists no sha256, as of earlier releases; save or export the model again")
    files = ListedFiles(manifest)
    unlisted = [name for name in _names(place) if name not in files.sizes and not _is_about_the_model(name)]
    return dict(sorted({**files.faults(), **dict.fromkeys(unlisted, f"is not listed in {MANIFEST}")}.items()))


def _names(folder: Path) -> list[str]:
    paths = (Path(path, name) for path, _, files in os.walk(folder) for name in files)
    return [name for path in paths if (name := path.relative_to(folder).as_posix()) != MANIFEST]


def _is_about_the_model(name: str) -> bool:
    last = name.rpartition("/")[2]
    hidden = any(part.startswith(".") for part in name.split("/"))
    return hidden or last.lower().endswith(_NOTES) or last.split(".")[0] in ("LICENSE", "NOTICE")
