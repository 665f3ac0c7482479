"""One process at a time that changes a folder."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from demitasse.errors import FolderError, reason
from demitasse.host.full_disk import naming_full_disk


@contextmanager
def only_writer(folder: Path, lock: str, what: str = "a folder") -> Iterator[None]:
    """Be the only process that changes `folder`, by its file `lock`; another one is told so in one sentence.

    The lock is SQLite's, on an empty file: it works on every platform, and ends with the process in any way.
    """
    try:
        with naming_full_disk(folder):
            held = _locked(folder / lock)
    except sqlite3.Error as problem:
        if getattr(problem, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
            raise FolderError(f"{folder} is being changed by another process; try again when that has ended") from None
        raise FolderError(f"cannot write {folder} ({reason(problem)}); choose {what} you may write to") from problem
    try:
        yield
    finally:
        held.close()


def _locked(path: Path) -> sqlite3.Connection:
    lock = sqlite3.connect(path, timeout=0, isolation_level=None)
    try:
        lock.execute("PRAGMA journal_mode = MEMORY")  # nothing is ever written, so no file is needed to undo it
        lock.execute("BEGIN EXCLUSIVE")
    except BaseException:
        lock.close()
        raise
    return lock
