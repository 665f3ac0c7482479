"""Vectors written as they are computed: to `.npy` and `.jsonl` files that appear only when complete, or to stdout.

`encoding/vectors.py` says how each kind is stored.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from demitasse.encoding.vectors import STORAGE_TYPES, Stored, check_kind, columns, store
from demitasse.errors import DataError
from demitasse.host.atomic import new_file

TextVector = tuple[str, npt.NDArray[np.float32]]
_HEADER_BYTES = 128
FORMATS = (".npy", ".jsonl")


def check_format(path: Path | None, kind: str = "float32") -> None:
    """Refuse a format or kind that cannot be written, before any work is done; no path means JSON lines on stdout."""
    check_kind(kind)
    if path is not None and path.suffix not in FORMATS:
        raise DataError(f"the format of {str(path)!r} is not known; use a name that ends in {' or '.join(FORMATS)}")
    if kind == "float16" and (path is None or path.suffix == ".jsonl"):
        raise DataError(
            "float16 saves nothing in JSON lines, where numbers are text; write a .npy file, or use float32"
        )


def write_vectors(pairs: Iterable[TextVector], dims: int, path: Path | None, kind: str = "float32") -> int:
    """Write the vector of each text, stored as `kind`, to `path` or stdout; returns how many there were."""
    check_format(path, kind)
    stored = ((text, store(vector[None], kind)[0]) for text, vector in pairs)
    if path is None:
        return _write_jsonl(stored, sys.stdout.buffer)
    with new_file(path) as file:
        return _write_npy(stored, dims, kind, file) if path.suffix == ".npy" else _write_jsonl(stored, file)


def _write_jsonl(stored: Iterable[tuple[str, Stored]], file: BinaryIO) -> int:
    count = 0
    for text, vector in stored:
        count += 1
        # A float32 has no more than 7 digits.
        values = [float(f"{value:.7g}") for value in vector] if vector.dtype.kind == "f" else vector.tolist()
        line = json.dumps({"text": text, "vector": values}, ensure_ascii=False)
        file.write(line.encode("utf-8", "replace") + b"\n")
    file.flush()
    return count


def _write_npy(stored: Iterable[tuple[str, Stored]], dims: int, kind: str, file: BinaryIO) -> int:
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
