"""Vectors: unit length, and how an index stores them in fewer bytes. Pure numpy.

- float32: 4 bytes per dim, as they are.
- float16: 2 bytes per dim, each number rounded.
- int8: 1 byte per dim. The largest number of a vector becomes 127 or -127 and the others are scaled with it. Every
  vector has its own scale, which is not stored: a cosine does not depend on the length of a vector.
- binary: 1 bit per dim, eight in a byte, the first in its highest bit: whether a number is above 0. The cosine of two
  such vectors is 1 - 2 x (bits in which they differ) / dims, so counting bits ranks as cosines do.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from demitasse.errors import DataError, shown

Vectors = npt.NDArray[np.float32]
Stored = npt.NDArray[Any]

# The number format of each kind; a binary vector is bytes of eight dims each.
STORAGE_TYPES: dict[str, np.dtype[Any]] = {
    "float32": np.dtype("<f4"),
    "float16": np.dtype("<f2"),
    "int8": np.dtype("i1"),
    "binary": np.dtype("u1"),
}
STORED = tuple(STORAGE_TYPES)
_LARGEST_FLOAT16 = 65504
_LARGEST_INT8 = 127  # -128 is not used, so that a number and its negative are equally large


def unit_length(vectors: npt.NDArray[np.floating]) -> Vectors:
    """Each of `vectors` (B, D) scaled to unit length, in float32; zeros stay zeros, as with torch's `normalize`.

    >>> unit_length(np.float32([[3, 4], [0, 0]])).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    single = np.asarray(vectors, np.float32)
    lengths = np.sqrt(np.einsum("ij,ij->i", single, single))[:, None]
    scaled: Vectors = single / np.maximum(lengths, np.float32(1e-12))
    return scaled


def columns(dims: int, kind: str) -> int:
    """How many numbers a stored vector of `dims` has.

    >>> columns(384, "int8"), columns(384, "binary")
    (384, 48)
    """
    check_kind(kind)
    return -(-dims // 8) if kind == "binary" else dims


def vector_bytes(dims: int, kind: str) -> int:
    """How many bytes a stored vector of `dims` takes.

    >>> [vector_bytes(100, kind) for kind in STORED]
    [400, 200, 100, 13]
    """
    return columns(dims, kind) * STORAGE_TYPES[check_kind(kind)].itemsize


def index_bytes(dims: int) -> int:
    """How many bytes an index takes for a vector of `dims`: int8 and sign bits, two scales and the row of its text.

    >>> index_bytes(384), index_bytes(64)
    (448, 88)
    """
    return dims + 8 * -(-dims // 64) + 16


def store(vectors: npt.ArrayLike, kind: str) -> Stored:
    """`vectors` stored as `kind`: "float32", "float16", "int8" or "binary".

    >>> vectors = encoder.encode(["a ristretto", "a lungo"])
    >>> store(vectors, "int8").shape, store(vectors, "binary").shape
    ((2, 32), (2, 4))
    >>> store([[0.8, -0.4, 0.1]], "int8").tolist()
    [[127, -64, 16]]
    """
    check_kind(kind)
    single = _checked(vectors, "store", np.float32)
    if kind == "binary":
        return np.packbits(single > 0, axis=1)
    if kind == "int8":
        largest = np.abs(single).max(axis=1, keepdims=True, initial=0)
        scaled = single / np.where(largest > 0, largest, np.float32(1)) * np.float32(_LARGEST_INT8)
        return scaled.round().astype(np.int8)
    if kind == "float16" and np.abs(single).max(initial=0) > _LARGEST_FLOAT16:
        raise DataError(
            f"a vector has a number beyond {_LARGEST_FLOAT16}, the largest float16; give vectors of unit length"
        )
    return single.astype(STORAGE_TYPES[kind])


def restore(stored: npt.ArrayLike, kind: str, dims: int | None = None) -> Vectors:
    """What `store` gave, as unit-length float32 vectors with the cosines of the stored ones.

    `dims` is needed for binary vectors whose number of dims is not a multiple of 8.

    >>> vectors = encoder.encode(["a ristretto", "a lungo"])
    >>> bool(np.abs(restore(store(vectors, "int8"), "int8") - vectors).max() < 0.01)
    True
    >>> restore(store([[0.8, -0.4, 0.1, 0.5]], "binary"), "binary", dims=4).tolist()
    [[0.5, -0.5, 0.5, 0.5]]
    """
    wanted = STORAGE_TYPES[check_kind(kind)]
    given = np.asarray(stored)
    if given.dtype != wanted:
        raise DataError(f"{kind} vectors are of type {wanted}, not {given.dtype}; pass the kind they were stored as")
    checked = _checked(given, "restore", wanted)
    width = checked.shape[1]
    dims = (8 if kind == "binary" else 1) * width if dims is None else dims
    if not isinstance(dims, int) or columns(max(dims, 0), kind) != width:
        problem = f"vectors stored as {width} numbers are not {kind} vectors of {shown(dims)} dims"
        raise DataError(f"{problem}; pass the dims of the vectors that were stored")
    if kind == "binary":
        bits = np.unpackbits(checked, axis=1, count=dims)
        return (2 * bits.astype(np.float32) - 1) / np.float32(math.sqrt(dims))
    return unit_length(checked.astype(np.float32))


def check_kind(kind: str) -> str:
    """`kind` itself, if vectors can be stored that way."""
    if not (isinstance(kind, str) and kind in STORED):
        raise DataError(f"vectors cannot be stored as {shown(kind)}; use one of {', '.join(STORED)}")
    return kind


def _checked(values: npt.ArrayLike, verb: str, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    try:
        vectors = np.asarray(values, dtype)
    except (TypeError, ValueError, OverflowError) as problem:
        raise DataError(f"{verb} was given {type(values).__name__}, not vectors of numbers; give an array") from problem
    if vectors.ndim != 2 or not vectors.shape[1]:
        raise DataError(f"{verb} was given an array of shape {vectors.shape}; give one row per vector: (count, dims)")
    if vectors.dtype.kind == "f" and not np.isfinite(vectors).all():
        raise DataError(f"{verb} was given a vector with nan or inf; give vectors of finite numbers")
    return vectors
