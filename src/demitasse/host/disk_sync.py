"""Waiting until what was written is on the disk."""

from __future__ import annotations

import errno
import os
from pathlib import Path

_FOLDERS_CANNOT_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)  # what some network file systems answer


def sync(path: Path) -> None:
    """Wait until `path` is on the disk; a folder only where the platform can."""
    folder = path.is_dir()
    try:
        # Windows flushes only what is open for writing, and POSIX does not let a read-only file be opened that way.
        handle = os.open(path, os.O_RDONLY if folder or os.name != "nt" else os.O_RDWR)
    except PermissionError:
        if folder:  # Windows opens no folder; what was written is complete all the same
            return
        raise
    try:
        os.fsync(handle)
    except OSError as problem:
        if not (folder and problem.errno in _FOLDERS_CANNOT_SYNC):
            raise
    finally:
        os.close(handle)
