"""A disk that is nearly full: a tmpfs over a folder. Needs root."""

from __future__ import annotations

import gc
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trees import make_equal

_FILLER = ".filler"


@contextmanager
def small_disk(folder: Path, template: Path, room: int) -> Iterator[None]:
    """Within the block, `folder` is what `template` is, on a disk with `room` KiB left."""
    options = f"size={room + _needed(template)}k"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True)
    try:
        make_equal(folder, template)
        with (folder / _FILLER).open("wb") as filler:  # what the estimate had too much
            spare = os.statvfs(folder)
            filler.write(bytes(max(0, spare.f_bavail * spare.f_frsize - 1024 * room)))
        yield
    finally:
        gc.collect()  # files that are still open would keep the disk
        subprocess.run(["umount", folder], check=True)


def _needed(template: Path) -> int:
    """More than what `template` takes on a tmpfs, in KiB: whole pages, and one for each name."""
    return 64 + sum(8 + 4 * -(-path.stat().st_size // 4096) for path in template.rglob("*"))
