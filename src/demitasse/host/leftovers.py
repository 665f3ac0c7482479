"""What is written beside a target before it takes its place, and what killed processes left of that.

    .NAME.xxxxxxxx.part     a file or folder that is being written, or a folder that was just replaced
    .NAME.xxxxxxxx.old      holds NAME while two renames replace it, where the file system cannot exchange folders

A living process locks what it writes, and the system unlocks it when the process ends in any way. Where there are no
such locks (Windows, some network disks), what nobody has touched for a day counts as left over.
"""

from __future__ import annotations

import errno
import glob
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

PART, OLD = ".part", ".old"
STALE = 24 * 3600.0  # seconds
PATIENCE = 2.0  # seconds
# SQLite keeps a journal beside a file that it writes.
_LEFTOVER = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{8}(?P<kind>\.part|\.old)(-journal)?", re.DOTALL)


def make_beside(target: Path, kind: str, make: Callable[[Path], None]) -> tuple[Path, Callable[[], None]]:
    """A new path beside `target`, made by `make` and locked, and the function that unlocks it."""
    while True:
        path = target.with_name(f".{target.name}.{secrets.token_hex(4)}{kind}")
        try:
            make(path)
            return path, hold(path)
        except (FileExistsError, FileNotFoundError):
            # The name is taken, or another process swept it before it was locked.
            if not target.parent.is_dir():
                raise


def hold(path: Path) -> Callable[[], None]:
    """Lock `path` against sweeping, where the platform can; returns the function that unlocks it.

    A process of ours has a lock for a moment only. Anything else that has one for longer is none of our business.
    """
    handle, patience = None, time.monotonic() + PATIENCE
    while handle is None:
        try:
            handle = _locked(path)
        except BlockingIOError:
            if time.monotonic() < patience:
                time.sleep(0.005)
                continue
        if handle is None:
            return lambda: None
    try:
        same = os.path.samestat(os.fstat(handle), os.stat(path))
    except OSError:
        same = False
    if not same:
        os.close(handle)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path))
    return lambda: os.close(handle)


def sweep(folder: Path, name: str | None = None) -> None:
    """Remove what killed processes left in `folder`, of the target `name` or of every target.

    A target that was moved aside by a process that was killed before the new one took its place is put back.
    """
    try:
        with os.scandir(folder) as entries:
            named = [(match, entry) for entry in entries if (match := _LEFTOVER.fullmatch(entry.name))]
            found = [(match, Path(entry.path)) for match, entry in named if _is_ours(entry)]
    except OSError:  # no such folder yet
        return
    for match, path in found:
        if name is None or match["name"] == name:
            _sweep_one(path, folder / match["name"], match["kind"])


def _is_ours(entry: os.DirEntry[str]) -> bool:
    """Whether this user made it: in a folder that several users share, what others made is not ours to remove."""
    return os.name == "nt" or entry.stat(follow_symlinks=False).st_uid == os.geteuid()


def is_leftover(path: Path) -> bool:
    """Whether `path` has the name of something that is being written, or that a killed process left."""
    return _LEFTOVER.fullmatch(path.name) is not None


def is_moved_aside(target: Path) -> bool:
    """Whether two renames are replacing `target` just now, so that for a moment it may not be there."""
    return any((path / target.name).exists() for path in target.parent.glob(f".{glob.escape(target.name)}.*{OLD}"))


def _sweep_one(path: Path, target: Path, kind: str) -> None:
    try:
        handle = _locked(path)
    except OSError:  # a living process has it, or another one has just swept it
        return
    try:
        if handle is None and time.time() - _last_change(path) < STALE:
            return
        if kind == OLD and not os.path.lexists(target) and (path / target.name).exists():
            os.rename(path / target.name, target)
        remove(path)
    except OSError:  # not ours to remove, or a read-only disk: what is written next will say so
        pass
    finally:
        if handle is not None:
            os.close(handle)


def remove(path: Path) -> None:
    """Remove a file or a folder, as far as that is possible; a link is removed, not what it points to."""
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            for folder, _, _ in os.walk(path):
                os.chmod(folder, 0o700)  # what is in a read-only folder cannot be removed
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


def _locked(path: Path) -> int | None:
    """A handle that locks `path`; `None` where that cannot be done. One that is locked already is an error."""
    if fcntl is None:
        return None
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except PermissionError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise
    except OSError:  # a network disk without locks
        os.close(handle)
        return None
    return handle


def _last_change(path: Path) -> float:
    """When `path`, or anything in it, was last written."""
    return max(os.lstat(each).st_mtime for each in (path, *path.rglob("*")))
