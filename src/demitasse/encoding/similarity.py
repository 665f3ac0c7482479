"""Cosines between vectors: of all with all, or one to one. Pure numpy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from demitasse.encoding.vectors import Vectors, unit_length
from demitasse.errors import DataError


def similarity(first: npt.ArrayLike, second: npt.ArrayLike) -> Vectors:
    """The cosine of each vector of `first` with each of `second`, (first, second).

    >>> similarity([[1, 0], [3, 4]], [0, 2]).round(3).tolist()
    [[0.0], [0.800000011920929]]
    """
    left, right = _two_of_a_width(first, second, "similarity")
    return left @ right.T


def similarity_pairwise(first: npt.ArrayLike, second: npt.ArrayLike) -> Vectors:
    """The cosine of each vector of `first` with the one of `second` in the same place.

    >>> similarity_pairwise([[1, 0], [3, 4]], [[1, 0], [0, 2]]).round(3).tolist()
    [1.0, 0.800000011920929]
    """
    left, right = _two_of_a_width(first, second, "similarity_pairwise")
    if len(left) != len(right):
        raise DataError(
            f"similarity_pairwise was given {len(left)} and {len(right)} vectors; give as many of each, or use "
            "similarity for all with all"
        )
    cosines: Vectors = np.einsum("ij,ij->i", left, right)
    return cosines


def _two_of_a_width(first: npt.ArrayLike, second: npt.ArrayLike, call: str) -> tuple[Vectors, Vectors]:
    left, right = _directions(first, call), _directions(second, call)
    if left.shape[1] != right.shape[1]:
        raise DataError(
            f"{call} was given vectors of {left.shape[1]} and of {right.shape[1]} dims; compare vectors of one cut"
        )
    return left, right


def _directions(values: npt.ArrayLike, call: str) -> Vectors:
    """`values` as rows of unit length; one vector is one row."""
    try:
        given = np.asarray(values)
        vectors = given.astype(np.float32)
    except (TypeError, ValueError, OverflowError, RuntimeError) as problem:  # such as a tensor on a GPU
        raise DataError(
            f"{call} was given {type(values).__name__}, which is not an array of numbers; give vectors as `encode` "
            "gives them"
        ) from problem
    if given.dtype == np.uint8:
        raise DataError(f"{call} was given binary vectors, with eight dims to a byte; restore them first")
    if vectors.ndim == 1:
        vectors = vectors[None]
    if vectors.ndim != 2 or not vectors.shape[1]:
        raise DataError(f"{call} was given an array of shape {given.shape}; give one row per vector: (count, dims)")
    if not np.isfinite(vectors).all():
        raise DataError(f"{call} was given a vector with nan or inf; give vectors of finite numbers")
    # Scaled first, so that no square is too large or too small for float32.
    largest = np.abs(vectors).max(axis=1, keepdims=True)
    return unit_length(vectors / np.where(largest > 0, largest, np.float32(1)))
