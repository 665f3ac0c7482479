"""Vectors written as they come: `.npy` and `.jsonl` files that appear whole, or JSON lines on stdout.

They are kept as `storing.py` keeps them.
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
    """Refuse a file that cannot be written, before any work is done; without a path, it is JSON lines on stdout."""
    check_kind(kind)
    if path is not None and path.suffix not in FORMATS:
        raise DataError(f"cannot tell the format of {str(path)!r}; end it in {' or '.join(FORMATS)}")
    if kind == "float16" and (path is None or path.suffix == ".jsonl"):
        raise DataError("float16 saves nothing in JSON lines, where numbers are digits; write a .npy file, or float32")


def write_vectors(rows: Iterable[TextVector], dims: int, path: Path | None, kind: str = "float32") -> int:
    """Write each text's vector as `kind` to `path` (stdout if there is none) and give back how many there were."""
    check_format(path, kind)
    kept = ((text, store(vector[None], kind)[0]) for text, vector in rows)
    if path is None:
        return _write_jsonl(kept, sys.stdout.buffer)
    with new_file(path) as file:
        return _write_npy(kept, dims, kind, file) if path.suffix == ".npy" else _write_jsonl(kept, file)


def _write_jsonl(rows: Iterable[tuple[str, Stored]], file: BinaryIO) -> int:
    count = 0
    for text, vector in rows:
        count += 1
        # 7 digits are all a float32 has.
        values = [float(f"{value:.7g}") for value in vector] if vector.dtype.kind == "f" else vector.tolist()
        line = json.dumps({"text": text, "vector": values}, ensure_ascii=False)
        file.write(line.encode("utf-8", "replace") + b"\n")
    file.flush()
    return count


def _write_npy(rows: Iterable[tuple[str, Stored]], dims: int, kind: str, file: BinaryIO) -> int:
    """A `.npy` file of unknown length: room for the header first, the header itself last."""
    file.write(b" " * _HEADER_BYTES)
    count = 0
    for _, vector in rows:
        count += 1
        file.write(vector.tobytes())
    file.seek(0)
    file.write(_npy_header(count, columns(dims, kind), STORAGE_TYPES[kind].str))
    file.seek(0, 2)
    return count


def _npy_header(rows: int, width: int, dtype: str) -> bytes:
    shape = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({rows}, {width}), }}"
    start = b"\x93NUMPY\x01\x00" + (_HEADER_BYTES - 10).to_bytes(2, "little")
    return start + shape.encode().ljust(_HEADER_BYTES - 11) + b"\n"
