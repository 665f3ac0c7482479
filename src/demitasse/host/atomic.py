"""Files and folders that appear complete or not at all: written aside, then moved into place.

Killed at any point, a target is absent, as it was, or complete; the next write to it sweeps what was left beside it.
A full disk, and any other error of the file system, is one sentence.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from demitasse.errors import FolderError
from demitasse.host.disk_sync import sync
from demitasse.host.exchange import exchange
from demitasse.host.full_disk import naming_full_disk
from demitasse.host.leftovers import OLD, PART, hold, make_beside, remove, sweep
from demitasse.host.replacing import OwnFiles, check_replaceable, keep, others_files

_TRIES = 100  # to replace a folder that other processes replace, too
_REPLACED_BY_OTHERS = (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST)


@contextmanager
def new_file(target: Path) -> Iterator[BinaryIO]:
    """A file to write: it replaces `target` when the block ends without an error, and is removed otherwise.

    A link stays, and the file it points to is replaced. What is no file, such as a pipe, is written to directly.
    """
    if target.is_dir():
        raise FolderError(f"{target} is a folder; give a file name")
    with naming_full_disk(target):
        if target.exists() and not target.is_file():
            with _naming(target):
                file = target.open("wb")
            with file:
                yield file
            return
        real = Path(os.path.realpath(target))
        with ExitStack() as at_the_end:
            with _naming(target):
                aside = _aside(real, at_the_end, folder=False)
            try:
                with aside.open("wb") as file:
                    yield file
                    with _naming(target):
                        file.flush()
                        os.fsync(file.fileno())
                with _naming(target):
                    _copy_mode(real, aside)
                    os.replace(aside, real)
                    sync(real.parent)
            except BaseException:  # Ctrl-C too
                remove(aside)
                raise


@contextmanager
def new_folder(target: Path, own_files: OwnFiles, source: Path | None = None, *, force: bool = False) -> Iterator[Path]:
    """A folder to fill: it replaces `target` when the block ends without an error, and is removed otherwise.

    `check_replaceable` says what is refused. What is in `target` that `own_files` does not name is kept.
    """
    check_replaceable(target, own_files, source, force=force)
    real = Path(os.path.realpath(target))
    with naming_full_disk(target), ExitStack() as at_the_end:
        with _naming(target):
            aside = _aside(real, at_the_end, folder=True)
        try:
            yield aside
            with _naming(target):
                put_folder(aside, real, own_files)
        finally:  # what was not finished, or what was replaced
            remove(aside)


def _aside(target: Path, at_the_end: ExitStack, *, folder: bool) -> Path:
    """A new file or folder beside `target`, which no other process sweeps before the end."""
    target.parent.mkdir(parents=True, exist_ok=True)
    sweep(target.parent, target.name)
    # Made by os.open and os.mkdir, since what tempfile makes has not the usual permissions.
    make = os.mkdir if folder else (lambda path: os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)))
    aside, unlock = make_beside(target, PART, make)
    at_the_end.callback(unlock)
    return aside


def put_folder(aside: Path, target: Path, own_files: OwnFiles) -> None:
    """Make `aside` the new `target`, once all of it is on the disk; what was replaced may be found at `aside` then."""
    written = [path for path in aside.rglob("*") if path.is_file()]
    for path in written:  # safetensors lets nobody else read its files
        os.chmod(path, aside.stat().st_mode & 0o666)
    for tries in range(_TRIES, 0, -1):
        keep(others_files(target, own_files), target, aside)
        for path in (*written, *(path for path in aside.rglob("*") if path.is_dir()), aside):
            sync(path)
        try:
            _copy_mode(target, aside)
            if target.exists():
                _replace(aside, target, own_files)
            else:
                os.rename(aside, target)
            break
        except OSError as problem:  # it came or went in between
            if problem.errno not in _REPLACED_BY_OTHERS or tries == 1:
                raise
    sync(target.parent)


def _replace(aside: Path, target: Path, own_files: OwnFiles) -> None:
    with ExitStack() as at_the_end:
        at_the_end.callback(hold(target))  # so that nobody sweeps it while it is called `aside`
        own = set(own_files(target))
        if not exchange(aside, target):
            _replace_by_two_renames(aside, target, own_files)
            return
        try:  # once more, for what others wrote meanwhile
            keep(others_files(aside, lambda folder: own.union(own_files(folder))), aside, target)
        except BaseException:
            exchange(aside, target)
            raise


def _replace_by_two_renames(aside: Path, target: Path, own_files: OwnFiles) -> None:
    """The same where folders cannot be exchanged: for a moment there is no `target`, but a name to put back."""
    beside, unlock = make_beside(target, OLD, os.mkdir)
    old = beside / target.name
    with ExitStack() as at_the_end:
        at_the_end.callback(unlock)
        try:
            os.rename(target, old)
            os.rename(aside, target)
        finally:
            if old.exists() and not target.exists():
                os.rename(old, target)
            if old.exists():  # replaced, by this process or by another
                keep(others_files(old, own_files), old, target)
            remove(beside)


@contextmanager
def _naming(target: Path) -> Iterator[None]:
    """Errors of the file system as one sentence that names `target`."""
    try:
        yield
    except OSError as problem:
        raise FolderError(
            f"cannot write {target} ({problem.strerror or problem}); choose a folder you may write to"
        ) from problem


def _copy_mode(target: Path, aside: Path) -> None:
    """Give `aside` the permissions of what it replaces."""
    if target.exists():
        os.chmod(aside, target.stat().st_mode & 0o7777 | (0o700 if target.is_dir() else 0))
