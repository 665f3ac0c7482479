"""Where rows of training data are kept: in memory or, when there are many, on disk."""

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

HELD = 256 << 20  # bytes of rows in memory; beyond that they are on disk
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Store:
    """Rows of texts and numbers, appended once and then read by number: in memory or, when there are many, on disk."""

    def __init__(self, name: str) -> None:
        self._name = name
        # Closed by the finalizer, for it lives as long as its rows may be asked for.
        self._file = tempfile.SpooledTemporaryFile(max_size=HELD)  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self._lock = threading.Lock()  # between going to a row and reading it
        self._ends = array("Q")
        self._hash = hashlib.sha256()

    def append(self, row: list[str | float]) -> None:
        """Add a row at the end."""
        line = _encode(row).encode() + b"\n"
        try:
            self._file.write(line)
        except OSError as problem:
            place = f"{tempfile.gettempdir()} ({reason(problem)})"
            raise DataError(f"{self._name} cannot be kept in {place}; make room there or set TMPDIR") from problem
        self._hash.update(line)
        self._ends.append((self._ends[-1] if self._ends else 0) + len(line))

    @property
    def sha256(self) -> str:
        """The hash of all rows in their order."""
        return self._hash.hexdigest()

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, index: int) -> list[Any]:
        number = operator.index(index)
        if not -len(self) <= number < len(self):
            raise IndexError(f"{self._name} has no row {number}; it has {len(self)} rows")
        number %= len(self)
        start = self._ends[number - 1] if number else 0
        with self._lock:
            self._file.seek(start)
            line = self._file.read(self._ends[number] - start)
        row: list[Any] = json.loads(line)
        return row
