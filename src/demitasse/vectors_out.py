"""Vectors written as they come: `.npy` and `.jsonl` files that appear whole, or JSON lines on stdout."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from demitasse.atomic import new_file
from demitasse.errors import DataError

Row = tuple[str, npt.NDArray[np.float32]]
_HEADER_BYTES = 128
FORMATS = (".npy", ".jsonl")


def check_format(path: Path) -> None:
    """Refuse a file name that does not say which format to write, before any work is done."""
    if path.suffix not in FORMATS:
        raise DataError(f"cannot tell the format of {str(path)!r}; end it in {' or '.join(FORMATS)}")


def write_vectors(rows: Iterable[Row], dims: int, path: Path | None) -> int:
    """Write each text's vector to `path` (stdout if there is none) and give back how many there were."""
    if path is None:
        return _write_jsonl(rows, sys.stdout.buffer)
    check_format(path)
    with new_file(path) as file:
        return _write_npy(rows, dims, file) if path.suffix == ".npy" else _write_jsonl(rows, file)


def _write_jsonl(rows: Iterable[Row], file: BinaryIO) -> int:
    count = 0
    for text, vector in rows:
        count += 1
        # 7 digits are all a float32 has.
        values = [float(f"{value:.7g}") for value in vector]
        line = json.dumps({"text": text, "vector": values}, ensure_ascii=False)
        file.write(line.encode("utf-8", "replace") + b"\n")
    file.flush()
    return count


def _write_npy(rows: Iterable[Row], dims: int, file: BinaryIO) -> int:
    """A `.npy` file of unknown length: room for the header first, the header itself last."""
    file.write(b" " * _HEADER_BYTES)
    count = 0
    for _, vector in rows:
        count += 1
        file.write(np.ascontiguousarray(vector, dtype="<f4").tobytes())
    file.seek(0)
    file.write(_npy_header(count, dims))
    file.seek(0, 2)
    return count


def _npy_header(rows: int, dims: int) -> bytes:
    shape = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {dims}), }}"
    start = b"\x93NUMPY\x01\x00" + (_HEADER_BYTES - 10).to_bytes(2, "little")
    return start + shape.encode().ljust(_HEADER_BYTES - 11) + b"\n"
