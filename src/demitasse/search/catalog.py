"""`texts.sqlite`: the texts of an index with their ids and metadata, and which files hold their vectors.

SQLite, because it is part of Python, finds a text by its number or id without reading the others, and makes a change
visible all at once: whatever happens to a process, a reader sees the state before a commit or the one after it. It
keeps its journal beside the file; a write-ahead log would need shared memory, and a folder that readers may write to.

    documents   row (ascending, never used twice), id, text, metadata (JSON), checksum
    segments    number (ascending), file, rows and sha256 of each file of vectors
    deleted     rows that are still in a file of vectors, and no longer in the index
    settings    what changes with the index: the sizes of its searches, the next id, its graph
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from demitasse.errors import DemitasseError, FolderError, reason
from demitasse.host.atomic import new_file
from demitasse.host.full_disk import naming_full_disk

CATALOG = "texts.sqlite"
JOURNAL = f"{CATALOG}-journal"
_KIND = 0x64656D69  # "demi": PRAGMA application_id
_SCHEMA = 1  # PRAGMA user_version
_PATIENCE = 60.0  # seconds to wait for another process to finish a commit or a read
_TOGETHER = 1000  # documents that are read at a time
_AT_ONCE = 500  # rows that are named in one statement, of which SQLite may take no more than 999
_CURE = "check the disk, and copy or build the index again"
_TABLES = """
    CREATE TABLE documents (
        row INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, text TEXT NOT NULL, metadata TEXT,
        checksum INTEGER NOT NULL);
    CREATE TABLE segments (
        number INTEGER PRIMARY KEY AUTOINCREMENT, file TEXT NOT NULL UNIQUE, rows INTEGER NOT NULL,
        sha256 TEXT NOT NULL);
    CREATE TABLE deleted (row INTEGER PRIMARY KEY);
    CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Document:
    """A text of an index."""

    id: str
    text: str
    metadata: Mapping[str, Any]


@dataclass(frozen=True)
class SegmentEntry:
    """What the catalog says of a file of vectors."""

    number: int
    file: str
    rows: int
    sha256: str


class Catalog:
    """The catalog of the index in `folder`. Threads may share it; a process that was forked opens it again."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / CATALOG
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._connection, self._file = self._connect()

    @classmethod
    def create(cls, folder: Path) -> Catalog:
        """The catalog of a new index, with nothing in it."""
        path = folder / CATALOG
        with _naming(path):
            connection = sqlite3.connect(path, isolation_level=None)
            try:
                connection.executescript(
                    f"BEGIN; PRAGMA application_id = {_KIND}; PRAGMA user_version = {_SCHEMA}; {_TABLES} COMMIT;"
                )
            finally:
                connection.close()
        return cls(folder)

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._connection.close()

    def reopen(self) -> None:
        """Open the file again: another one has taken its place."""
        with self._lock:
            self._connection.close()
            self._connection, self._file = self._connect()

    # Reading

    def is_replaced(self) -> bool:
        """Whether another file has taken its place, so that what is read here is old and what is written is lost."""
        with self._lock:
            self._mine()
            return self._inode() != self._file

    def version(self) -> tuple[int, int]:
        """Changes when anyone has changed what there is."""
        with self._lock:
            others = int(self._one("PRAGMA data_version")[0])
            return others, self._mine().total_changes

    def in_one_state(self, read: Callable[[], _Result]) -> _Result:
        """What `read` gives, with no change by others while it reads."""
        with self._lock, _naming(self.path):
            self._mine().execute("BEGIN")
            try:
                return read()
            finally:
                self._mine().execute("COMMIT")

    def segments(self) -> list[SegmentEntry]:
        """The files of vectors, in the order they were written."""
        rows = self._all("SELECT number, file, rows, sha256 FROM segments ORDER BY number")
        for row in rows:
            if [type(value) for value in row] != [int, str, int, str]:
                raise self.damaged("lists a file of vectors with a wrong value")
        return [SegmentEntry(*row) for row in rows]

    def deleted(self) -> list[int]:
        """Rows that are in a file of vectors, and no longer in the index."""
        return [int(row) for (row,) in self._all("SELECT row FROM deleted ORDER BY row")]

    def count(self) -> int:
        """How many texts there are."""
        return int(self._one("SELECT count(*) FROM documents")[0])

    def documents(self, rows: Iterable[int]) -> dict[int, Document]:
        """The texts of these rows, as far as they are there."""
        wanted, found = list(rows), dict[int, Document]()
        for start in range(0, len(wanted), _AT_ONCE):
            some = wanted[start : start + _AT_ONCE]
            marks = ",".join("?" * len(some))
            asked = f"SELECT row, id, text, metadata, checksum FROM documents WHERE row IN ({marks})"  # noqa: S608
            found |= {row: self._document(row, values) for row, *values in self._all(asked, *some)}
        return {row: found[row] for row in wanted if row in found}

    def each_document(self) -> Iterator[tuple[int, Document]]:
        """Every row with its text, in order."""
        asked = "SELECT row, id, text, metadata, checksum FROM documents WHERE row > ? ORDER BY row LIMIT ?"
        after = 0
        while some := self._all(asked, after, _TOGETHER):
            yield from ((row, self._document(row, values)) for row, *values in some)
            after = some[-1][0]

    def each_metadata(self, after: int = 0) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Every row after this one that has metadata, with it, in order."""
        asked = "SELECT row, metadata FROM documents WHERE row > ? AND metadata IS NOT NULL ORDER BY row LIMIT ?"
        while some := self._all(asked, after, _TOGETHER):
            yield from ((row, self._parsed(row, metadata)) for row, metadata in some)
            after = some[-1][0]

    def rows_of(self, ids: Iterable[str]) -> dict[str, int]:
        """The rows of these ids, as far as they are there."""
        found = {id_: self._one("SELECT row FROM documents WHERE id = ?", id_) for id_ in ids}
        return {id_: int(row[0]) for id_, row in found.items() if row is not None}

    def next_row(self) -> int:
        """The first row that was never used."""
        last = self._one("SELECT seq FROM sqlite_sequence WHERE name = 'documents'")
        return 1 if last is None else int(last[0]) + 1

    def setting(self, name: str) -> Any:
        """A setting; `None` if there is none of that name."""
        row = self._one("SELECT value FROM settings WHERE name = ?", name)
        try:
            return None if row is None else json.loads(row[0])
        except (ValueError, TypeError, RecursionError):
            raise self.damaged(f"has a setting {name!r} that is not JSON") from None

    def integrity(self) -> list[str]:
        """What SQLite finds wrong with the file."""
        return [str(said) for (said,) in self._all("PRAGMA integrity_check(20)") if said != "ok"]

    def damaged(self, what: str) -> FolderError:
        """The error that says `what` is wrong with the file."""
        return FolderError(f"{self.path} {what}; run demitasse index verify {self.path.parent}, then build it again")

    def _document(self, row: int, values: Sequence[Any]) -> Document:
        id_, text, metadata, checksum = values
        right = isinstance(id_, str) and isinstance(text, str) and isinstance(metadata, (str, type(None)))
        if not right or checksum != checksum_of(id_, text, metadata):
            raise self.damaged(f"has another text in row {row} than was written")
        return Document(id_, text, self._parsed(row, metadata) if metadata else {})

    def _parsed(self, row: int, metadata: str) -> Mapping[str, Any]:
        try:
            parsed = json.loads(metadata)
        except (ValueError, TypeError, RecursionError):
            parsed = None
        if not isinstance(parsed, dict):
            raise self.damaged(f"has metadata in row {row} that is not an object of JSON")
        return parsed

    def _all(self, asked: str, *values: object) -> list[Any]:
        with self._lock, _naming(self.path):
            return self._mine().execute(asked, values).fetchall()

    def _one(self, asked: str, *values: object) -> Any:
        with self._lock, _naming(self.path):
            return self._mine().execute(asked, values).fetchone()

    # Writing

    @contextmanager
    def change(self) -> Iterator[Change]:
        """What is done in the block becomes visible at its end, all at once, or not at all."""
        with self._lock, _naming(self.path):
            connection = self._mine()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield Change(connection)
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # where the disk is full, SQLite has done so by itself
                    connection.execute("ROLLBACK")
                raise

    def shrink(self) -> None:
        """Give back the space of what was deleted; only for the one writer.

        Into a new file that takes the place of this one: where the disk is full, a VACUUM in place can leave a journal
        that nobody can undo, and an index that nobody can read, until there is room.
        """
        with self._lock, _naming(self.path):
            with new_file(self.path) as file:
                try:
                    self._mine().execute("VACUUM INTO ?", [file.name])
                finally:
                    Path(f"{file.name}-journal").unlink(missing_ok=True)  # SQLite leaves it where the disk is full
            self.reopen()

    # The connection

    def _connect(self) -> tuple[sqlite3.Connection, int]:
        """A connection, and the inode of the file that it has open."""
        while True:
            before, connection = self._inode(), self._opened()
            if self._inode() == before:
                return connection, before
            connection.close()  # another file took its place meanwhile

    def _inode(self) -> int:
        if not self.path.is_file():
            raise FolderError(f"{self.path} is missing; copy the index again, or build it again")
        with _naming(self.path):
            return self.path.stat().st_ino

    def _opened(self) -> sqlite3.Connection:
        # Not read-only, since a reader may have to undo what a process that was killed had begun to write.
        address = f"{self.path.absolute().as_uri()}?mode=rw"
        with _naming(self.path):
            connection = sqlite3.connect(
                address, uri=True, isolation_level=None, timeout=_PATIENCE, check_same_thread=False
            )
            try:
                said = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in _PRAGMAS]
                if said != [_KIND, _SCHEMA]:
                    raise FolderError(
                        f"{self.path} is not a catalog of schema {_SCHEMA}, which this demitasse reads; copy or build "
                        "the index again"
                    )
            except BaseException:
                connection.close()
                raise
        return connection

    def _mine(self) -> sqlite3.Connection:
        """The connection of this process: one that was opened before a fork must not be used after it."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self._connection, self._file = self._connect()
        return self._connection


class Change:
    """A change of a catalog that is not visible yet."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def add_documents(self, documents: Iterable[tuple[int, str, str, str | None]]) -> None:
        """Put texts in, each with its row, id, text and metadata as JSON."""
        values = ((*one, checksum_of(*one[1:])) for one in documents)
        self._connection.executemany("INSERT INTO documents VALUES (?, ?, ?, ?, ?)", values)

    def remove_rows(self, rows: Iterable[int]) -> None:
        """Take texts out; their vectors stay where they are until their file is written again."""
        gone = [(row,) for row in rows]
        self._connection.executemany("DELETE FROM documents WHERE row = ?", gone)
        self._connection.executemany("INSERT INTO deleted VALUES (?)", gone)

    def add_segment(self, file: str, rows: int, sha256: str) -> None:
        """List a file of vectors."""
        values = (file, rows, sha256)
        self._connection.execute("INSERT INTO segments (file, rows, sha256) VALUES (?, ?, ?)", values)

    def drop_segments(self, numbers: Iterable[int], rows: Iterable[int]) -> None:
        """Forget files of vectors, and the deleted rows that they had."""
        self._connection.executemany("DELETE FROM segments WHERE number = ?", [(number,) for number in numbers])
        self._connection.executemany("DELETE FROM deleted WHERE row = ?", [(row,) for row in rows])

    def set(self, name: str, value: Any) -> None:
        """Keep a setting."""
        self._connection.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (name, json.dumps(value)))


_PRAGMAS = ("application_id", "user_version")


def checksum_of(id_: str, text: str, metadata: str | None) -> int:
    """What tells a text from a damaged one."""
    return zlib.crc32("\0".join((id_, text, metadata or "")).encode())


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Errors of SQLite as one sentence that names the file."""
    try:
        with naming_full_disk(path):
            yield
    except DemitasseError:
        raise
    except sqlite3.OperationalError as problem:
        code = getattr(problem, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_READONLY:
            raise FolderError(
                f"cannot write {path.parent} ({reason(problem)}); choose an index you may write to"
            ) from problem
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise FolderError(
                f"{path} has been in use by another process for {_PATIENCE:.0f} s; try again when that has ended"
            ) from problem
        raise FolderError(f"{path} cannot be read or written ({reason(problem)}); {_CURE}") from problem
    except (sqlite3.Error, OverflowError, UnicodeError) as problem:
        raise FolderError(f"{path} is damaged ({reason(problem)}); {_CURE}") from problem
    except OSError as problem:
        raise FolderError(f"{path} cannot be read ({problem.strerror}); {_CURE}") from problem
