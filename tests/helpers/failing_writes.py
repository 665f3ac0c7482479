"""Changes of files that fail inside this process, on every platform: those that Python itself makes known.

An audit hook sees files opened for writing, made, moved and removed. It sees no write to an open file and nothing that
Rust or C++ does, for which there is `faults.py` on Linux. A hook stays until the end: this one does nothing while no
folder is watched.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_PATHS = {"os.rename": 2, "os.mkdir": 1, "os.remove": 1, "os.rmdir": 1, "os.link": 2, "os.symlink": 2}
_FREES = ("os.remove", "os.rmdir")


class Killed(BaseException):
    """Raised in place of this change and all later ones: on the disk it is as if the process had been killed."""


@dataclass
class Watch:
    """The changes made below a folder, and which of them is the first to fail."""

    folder: Path
    kind: str = ""  # "kill" or "full"; "" only counts
    at: int = 0
    changes: list[str] = field(default_factory=list)

    def see(self, event: str, paths: list[str]) -> None:
        if not any(Path(os.path.abspath(path)).is_relative_to(self.folder) for path in paths):
            return
        self.changes.append(" ".join([event, *paths]))
        if self.kind == "kill" and len(self.changes) >= self.at:
            raise Killed
        moved = event == "os.rename" and len(self.changes) > self.at  # a name that was just given up is free
        if self.kind == "full" and len(self.changes) >= self.at and event not in _FREES and not moved:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), paths[-1])


_watches: list[Watch] = []
_installed: list[bool] = []


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if not _watches:
        return
    if event == "open":
        path, _, flags = arguments
        if isinstance(flags, int) and flags & _WRITES and isinstance(path, (str, bytes)):
            _watches[-1].see(event, [os.fsdecode(path)])
    elif event in _PATHS:
        given = [path for path in arguments[: _PATHS[event]] if isinstance(path, (str, bytes, os.PathLike))]
        _watches[-1].see(event, [os.fsdecode(path) for path in given])


@contextmanager
def watching(watch: Watch) -> Iterator[Watch]:
    """Within the block, changes below the folder are counted, and fail from the chosen one on."""
    if not _installed:
        sys.addaudithook(_hook)
        _installed.append(True)
    _watches.append(watch)
    try:
        yield watch
    finally:
        _watches.pop()
