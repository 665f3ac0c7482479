"""Vectors written as they are computed: to files that appear only when complete, or to stdout.

`encoding/vectors.py` says how each kind is stored.
"""

from __future__ import annotations

import gzip
import json
import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO
from uuid import UUID

from demitasse.data.parquet_vectors import RowVector, vector_facts, write_parquet
from demitasse.data.text_rows import TextRow
from demitasse.encoding.encoder import Encoder
from demitasse.encoding.vectors import STORAGE_TYPES, Stored, check_kind, columns, store
from demitasse.errors import DataError
from demitasse.extras import PARQUET, need
from demitasse.host.atomic import new_file

_HEADER_BYTES = 128
FORMATS = (".npy", ".jsonl", ".jsonl.gz", ".parquet")


@dataclass(frozen=True)
class VectorFile:
    """Where vectors go and how: the path (None is stdout, as JSON lines), the kind of vector, the columns kept."""

    path: Path | None
    kind: str = "float32"
    keep: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what cannot be written, before any work is done."""
        check_kind(self.kind)
        if self.format not in FORMATS:
            known = f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]}"
            raise DataError(f"the format of {str(self.path)!r} is not known; use a name that ends in {known}")
        if self.format == ".parquet":
            need(f"writing {self.path}", PARQUET)
        if self.kind == "float16" and self.format.startswith(".jsonl"):
            raise DataError(
                "float16 saves nothing in JSON lines, where numbers are text; "
                "write a .npy file or a .parquet file, or use float32"
            )
        if self.keep and self.format == ".npy":
            raise DataError("--keep was given, but a .npy file holds vectors alone; write a .jsonl or .parquet file")

    @property
    def format(self) -> str:
        """The suffix of the path; .jsonl for stdout."""
        name = ".jsonl" if self.path is None else self.path.name.lower()
        return next((known for known in FORMATS if name.endswith(known)), "")

    def check_columns(self, column: str | None) -> None:
        """Refuse a kept column whose name is that of another; `column` is the one the texts come from."""
        for name in self.keep:
            if name == "vector" or (name == "text" and column != "text"):
                raise DataError(f"--keep {name} cannot be written beside the column {name!r} of the output; rename it")

    def write(
        self,
        groups: Iterable[Iterable[RowVector]],
        encoder: Encoder,
        prompt: str = "",
        types: Mapping[str, Any] | None = None,
    ) -> int:
        """Write each row with its vector, which `encoder` gave; returns how many there were.

        On stdout, the vectors of a group are all there before the next one is asked for. `prompt` is what was put
        before each text, and `types` are the Arrow types of kept columns, if they are known.
        """
        if self.path is None:
            return sum(_write_jsonl(self._stored(group), sys.stdout.buffer) for group in groups)
        rows = chain.from_iterable(groups)
        with new_file(self.path) as file:
            if self.format == ".parquet":
                kept = {name: (types or {}).get(name) for name in self.keep}
                return write_parquet(rows, file, vector_facts(encoder, self.kind, prompt), kept)
            if self.format == ".npy":
                return _write_npy(self._stored(rows), encoder.full.dims, self.kind, file)
            if self.format == ".jsonl.gz":
                # No name and time inside, so that the same vectors make the same file.
                with gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as packed:
                    return _write_jsonl(self._stored(rows), packed)
            return _write_jsonl(self._stored(rows), file)

    def _stored(self, rows: Iterable[RowVector]) -> Iterable[tuple[TextRow, Stored]]:
        return ((row, store(vector[None], self.kind)[0]) for row, vector in rows)


def _write_jsonl(stored: Iterable[tuple[TextRow, Stored]], file: BinaryIO | gzip.GzipFile) -> int:
    count = 0
    for row, vector in stored:
        count += 1
        # A float32 has no more than 7 digits.
        values = [float(f"{value:.7g}") for value in vector] if vector.dtype.kind == "f" else vector.tolist()
        kept = {name: _plain(name, value) for name, value in row.kept.items()}
        line = json.dumps({**kept, "text": row.text, "vector": values}, ensure_ascii=False)
        file.write(line.encode("utf-8", "replace") + b"\n")
    file.flush()
    return count


def _plain(name: str, value: Any) -> Any:
    """A kept value as JSON has it: dates and decimals as strings, and null for a number that is not one."""
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(name, held) for key, held in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(name, held) for held in value]
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, (Decimal, timedelta, UUID)):
        return str(value)
    raise DataError(f"the column {name!r} holds {type(value).__name__}, which JSON cannot; keep it in a .parquet file")


def _write_npy(stored: Iterable[tuple[TextRow, Stored]], dims: int, kind: str, file: BinaryIO) -> int:
    """Write a `.npy` file of unknown length: blanks first, then the vectors, then the header over the blanks."""
    file.write(b" " * _HEADER_BYTES)
    count = 0
    for _, vector in stored:
        count += 1
        file.write(vector.tobytes())
    file.seek(0)
    file.write(_npy_header(count, columns(dims, kind), STORAGE_TYPES[kind].str))
    file.seek(0, 2)
    return count


def _npy_header(count: int, width: int, dtype: str) -> bytes:
    shape = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({count}, {width}), }}"
    start = b"\x93NUMPY\x01\x00" + (_HEADER_BYTES - 10).to_bytes(2, "little")
    return start + shape.encode().ljust(_HEADER_BYTES - 11) + b"\n"
