"""A folder for what is needed only while a process runs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from demitasse.errors import FolderError, FullDisk
from demitasse.host.full_disk import naming_full_disk
from demitasse.host.leftovers import PART, make_beside, remove, sweep


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder among the temporary files, removed at the end; what killed processes left there is swept first."""
    try:
        place = Path(tempfile.gettempdir()) / "demitasse"
        sweep(place.parent, place.name)
        with naming_full_disk(place):
            folder, unlock = make_beside(place, PART, lambda path: os.mkdir(path, 0o700))
    except OSError as problem:
        raise FolderError(
            f"no temporary folder can be made ({problem.strerror}); set TMPDIR to a folder you may write to"
        ) from problem
    try:
        yield folder
    except FullDisk as problem:
        raise FullDisk(f"{problem} (temporary files go where TMPDIR says)") from problem
    finally:
        remove(folder)
        unlock()
