"""Files and folders that appear complete or not at all: written aside, then moved into place."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from demitasse.errors import FolderError

_FOLDERS_CANNOT_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)  # what some network file systems answer


@contextmanager
def new_file(target: Path) -> Iterator[BinaryIO]:
    """A file to write: it replaces `target` when the block ends without an error, and is removed otherwise."""
    with _naming(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, aside = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(aside, 0o666 & ~_umask())
        os.replace(aside, target)
    except BaseException:  # Ctrl-C too
        Path(aside).unlink(missing_ok=True)
        raise


@contextmanager
def new_folder(target: Path, mark: str) -> Iterator[Path]:
    """A folder to fill: it replaces `target` when the block ends without an error, and is removed otherwise.

    An existing `target` is replaced only if it is empty or has the file `mark`, that is, if demitasse wrote it.
    Killed at any point, `target` is absent, as it was, or complete.
    """
    if target.exists() and not _replaceable(target, mark):
        raise FolderError(
            f"{target} exists and is not a demitasse model; choose a new folder, or remove it yourself first"
        )
    parent = target.parent
    with _naming(target):
        parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".part", dir=parent))
    try:
        os.chmod(aside, 0o777 & ~_umask())
        yield aside
        for path in aside.rglob("*"):
            _sync(path)
        old = None
        if target.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".old", dir=parent))
            os.rename(target, old / target.name)
        os.rename(aside, target)
        _sync(parent)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)


def _replaceable(target: Path, mark: str) -> bool:
    return target.is_dir() and ((target / mark).is_file() or not any(target.iterdir()))


@contextmanager
def _naming(target: Path) -> Iterator[None]:
    """Errors of the file system as one sentence that names `target`."""
    try:
        yield
    except OSError as problem:
        raise FolderError(f"cannot write {target} ({problem.strerror}); choose a folder you may write to") from problem


def _sync(path: Path) -> None:
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


def _umask() -> int:
    # The only way to read it is to set it.
    mask = os.umask(0)
    os.umask(mask)
    return mask
