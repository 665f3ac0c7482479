"""Storage for training data: in memory, or on disk when there is a lot of it."""

from __future__ import annotations

import hashlib
import json
import operator
import tempfile
import threading
import weakref
from array import array
from typing import Any

from demitasse.errors import DataError, reason

MAX_IN_MEMORY = 256 << 20  # bytes; beyond that all rows move to disk
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Store:
    """Rows of texts and numbers, appended once and then read by index."""

    def __init__(self, name: str) -> None:
        self._name = name
        # Closed by the finalizer, because rows may be read as long as the store exists.
        self._file = tempfile.SpooledTemporaryFile(max_size=MAX_IN_MEMORY)  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self._lock = threading.Lock()  # no other thread may seek between seek and read
        self._ends = array("Q")
        self._hash = hashlib.sha256()

    def append(self, values: list[str | float]) -> None:
        """Add a row."""
        line = _encode(values).encode() + b"\n"
        try:
            self._file.write(line)
        except OSError as problem:
            folder = f"{tempfile.gettempdir()} ({reason(problem)})"
            raise DataError(f"{self._name} cannot be stored in {folder}; make room there or set TMPDIR") from problem
        self._hash.update(line)
        self._ends.append((self._ends[-1] if self._ends else 0) + len(line))

    @property
    def sha256(self) -> str:
        """The hash of all rows in order."""
        return self._hash.hexdigest()

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, index: int) -> list[Any]:
        row = operator.index(index)
        if not -len(self) <= row < len(self):
            raise IndexError(f"{self._name} has no row {row}; it has {len(self)} rows")
        row %= len(self)
        start = self._ends[row - 1] if row else 0
        with self._lock:
            self._file.seek(start)
            line = self._file.read(self._ends[row] - start)
        values: list[Any] = json.loads(line)
        return values
