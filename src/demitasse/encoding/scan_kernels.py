"""The arithmetic of a search over many vectors. Pure: arrays in, arrays out.

Three ways to compare a query with rows, from coarse to fine:

- bits: in how many sign bits they differ, from columns of 64 bits each. A column is read from one end to the other,
  which plain numpy does at the speed of memory; row by row it would take ten times as long.
- products: the int8 product over the first dims, by onnxruntime, which uses the processor's instructions for it.
- cosines: in float32, at full width.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from demitasse.encoding.ort_sessions import open_session
from demitasse.host.bundled import INT8_PRODUCTS

Bits = npt.NDArray[np.uint64]
Distances = npt.NDArray[np.uint8] | npt.NDArray[np.uint16]
Floats = npt.NDArray[np.float32]
Int8 = npt.NDArray[np.int8]

WORD = 64  # bits
_FIRST_WORDS = 3  # whose distances are bytes
_BLOCK = 1 << 16  # rows whose intermediate results stay in the processor's cache
# Products of int8 rows, made unsigned, with a query are added in pairs as int16 on processors without VNNI: with 64 as
# the largest number of a query no pair overflows.
_LARGEST_QUERY = 64
_scratch = threading.local()


def sign_bits(vectors: npt.NDArray[Any]) -> Bits:
    """Whether each dim is above 0, as columns of 64 bits: (dims / 64, rows), the last word filled up with zeros.

    >>> sign_bits(np.float32([[0.1] * 65, [-0.1] * 65])).tolist()
    [[18446744073709551615, 0], [1, 0]]
    """
    count, dims = vectors.shape
    padded = np.zeros((count, -(-dims // WORD) * WORD), bool)
    np.greater(vectors, 0, out=padded[:, :dims])
    return np.ascontiguousarray(np.packbits(padded, axis=1, bitorder="little").view("<u8").T)


def first_words(dims: int) -> int:
    """How many columns of bits are worth reading first, before the others of a few rows; 0: all are read at once.

    >>> [first_words(dims) for dims in (128, 256, 384, 768)]
    [0, 2, 3, 3]
    """
    words = -(-dims // WORD)
    return min(words // 2, _FIRST_WORDS) if words > 3 else 0


def bit_distances(columns: Bits, query: Bits, out: Distances) -> None:
    """In how many bits each row of `columns` (W, n) differs from `query` (W,), into `out` (n,)."""
    words, counts = _buffers()
    for start in range(0, columns.shape[1], _BLOCK):
        block = slice(start, min(start + _BLOCK, columns.shape[1]))
        size, total = block.stop - start, out[block]
        for number, word in enumerate(query):
            np.bitwise_xor(columns[number, block], word, out=words[:size])
            if number:
                np.add(total, _count_bits(words[:size], counts[:size]), out=total)
            else:
                np.copyto(total, _count_bits(words[:size], counts[:size]))


def bit_distances_at(columns: Bits, query: Bits, places: npt.NDArray[np.int64]) -> npt.NDArray[np.uint16]:
    """The same for the rows at `places` alone."""
    total = np.zeros(len(places), np.uint16)
    for column, word in zip(columns, query, strict=True):
        total += _count_bits(column.take(places) ^ word, np.empty(len(places), np.uint8))
    return total


def first_products(rows: Int8, queries: Int8) -> npt.NDArray[np.int32]:
    """The products of `rows` (n, d) with each of `queries` (d, Q): (n, Q)."""
    products: npt.NDArray[np.int32] = _session().run(None, {"rows": rows, "queries": queries})[0]
    return products


def as_int8_query(queries: Floats) -> Int8:
    """`queries` (Q, d) as `first_products` takes them: (d, Q)."""
    largest = np.abs(queries).max(axis=1, keepdims=True, initial=0)
    scaled = queries / np.where(largest > 0, largest, np.float32(1)) * np.float32(_LARGEST_QUERY)
    return np.ascontiguousarray(scaled.round().astype(np.int8).T)


def cosines(rows: Floats, query: Floats, scales: Floats | None) -> Floats:
    """The cosine of each of `rows` (n, d) with a `query` of unit length; `scales` are 1 / length, if they are known."""
    # Not a matrix product: BLAS would start threads, which takes longer than these few rows do.
    products: Floats = np.einsum("ij,j->i", rows, query)
    return products * (scales_of(rows) if scales is None else scales)


def scales_of(stored: Int8 | Floats) -> Floats:
    """1 / length of each int8 vector, whatever type its numbers have now; 1 for zeros, whose cosines are 0.

    >>> scales_of(np.int8([[3, 4], [0, 0]])).tolist()
    [0.20000000298023224, 1.0]
    """
    single = stored.astype(np.float32, copy=False)
    squares: Floats = np.maximum(np.einsum("ij,ij->i", single, single), np.float32(1))
    return np.reciprocal(np.sqrt(squares))


def smallest(costs: npt.NDArray[Any], count: int, limit: float) -> npt.NDArray[np.int64]:
    """Where the `count` smallest of `costs` are, in order of place; only those below `limit` count.

    >>> smallest(np.uint16([5, 3, 9, 1, 3]), 3, limit=99).tolist()
    [1, 3, 4]
    """
    places = small(costs, count, limit)
    if len(places) > count:
        places = np.sort(places[np.argpartition(costs[places], count - 1)[:count]])
    return places


def small(costs: npt.NDArray[Any], count: int, limit: float) -> npt.NDArray[np.int64]:
    """Where the `count` smallest of `costs` are and perhaps some more, which takes less than to find these alone.

    A sample says how small they are, so that a million costs are compared once and not sorted.
    """
    step = max(1, len(costs) // 16384)
    sample = costs[::step].copy()
    rank = count // step * 5 // 4 + 8
    while rank < len(sample):
        sample.partition(rank)  # a twentieth of the time that sorting takes
        if not sample[rank] < limit:
            break
        places = _true(costs <= sample[rank])
        if len(places) >= count:
            return places
        rank *= 2
    return _true(costs < limit)


def _true(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Where `mask` is true, which is seldom: three times as fast as `np.flatnonzero`, eight of them at a time."""
    whole = mask[: len(mask) // 8 * 8]
    eights = np.flatnonzero(whole.view(np.uint64) != 0)
    inside = np.flatnonzero(whole.reshape(-1, 8).take(eights, axis=0))
    places = (eights.take(inside >> 3) << 3) + (inside & 7)
    return np.concatenate([places, len(whole) + np.flatnonzero(mask[len(whole) :])])


def _buffers() -> tuple[Bits, npt.NDArray[np.uint8]]:
    """Room for intermediate results, of this thread alone: new memory for each block would cost more than the work."""
    if not hasattr(_scratch, "words"):
        _scratch.words, _scratch.counts = np.empty(_BLOCK, np.uint64), np.empty(_BLOCK, np.uint8)
    return _scratch.words, _scratch.counts


def _count_bits(words: Bits, out: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    if hasattr(np, "bitwise_count"):
        np.bitwise_count(words, out)
        return out
    np.sum(_table().take(words.view(np.uint16)).reshape(-1, 4), axis=1, dtype=np.uint8, out=out)
    return out


@cache
def _table() -> npt.NDArray[np.uint8]:
    """How many bits each number of 16 bits has, for numpy 1."""
    numbers = np.arange(1 << 16, dtype=np.uint16).view(np.uint8).reshape(-1, 2)
    counts: npt.NDArray[np.uint8] = np.unpackbits(numbers, axis=1).sum(axis=1, dtype=np.uint8)
    return counts


@cache
def _session() -> Any:
    return open_session(INT8_PRODUCTS.read_bytes())
