from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from demitasse import DataError, load, restore, store
from demitasse.encoding.vectors import STORAGE_TYPES, STORED, columns, vector_bytes

VECTORS = arrays(
    np.float32,
    array_shapes(min_dims=2, max_dims=2, max_side=40),
    elements=st.one_of(st.just(0.0), st.floats(2**-9, 1, width=32), st.floats(-1, -(2**-9), width=32)),
)


def cosines(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return (one.astype(float) * other).sum(1) / np.where(lengths > 0, lengths, 1)


@given(VECTORS, st.sampled_from(STORED))
def test_stored_vectors_have_the_expected_size(vectors: np.ndarray, kind: str) -> None:
    stored = store(vectors, kind)
    assert stored.dtype == STORAGE_TYPES[kind]
    assert stored.shape == (len(vectors), columns(vectors.shape[1], kind))
    assert stored[0].nbytes == vector_bytes(vectors.shape[1], kind)
    back = restore(stored, kind, vectors.shape[1])
    assert back.dtype == np.float32
    assert back.shape == vectors.shape
    lengths = np.linalg.norm(back.astype(float), axis=1)
    assert np.all((np.abs(lengths - 1) < 1e-5) | (lengths == 0))


@given(VECTORS)
def test_int8_keeps_every_number_to_half_a_step(vectors: np.ndarray) -> None:
    stored = store(vectors, "int8").astype(float)
    largest = np.abs(vectors).max(1, keepdims=True)
    assert np.array_equal(np.abs(stored).max(1), np.where(largest[:, 0] > 0, 127, 0))
    assert np.all(np.abs(stored * largest / 127 - vectors) <= largest / 254 * 1.001)


@given(VECTORS, st.floats(2**-9, 2**9, width=32))
def test_the_length_of_a_vector_does_not_matter(vectors: np.ndarray, scale: float) -> None:
    small = np.abs(store(vectors * np.float32(scale), "int8").astype(int) - store(vectors, "int8")).max(initial=0)
    assert small <= 1  # a number between two steps may fall to either
    assert np.array_equal(store(vectors * np.float32(2.0**7), "binary"), store(vectors, "binary"))


@given(VECTORS)
def test_bits_that_differ_are_the_cosine(vectors: np.ndarray) -> None:
    stored, dims = store(vectors, "binary"), vectors.shape[1]
    differing = np.unpackbits(stored ^ np.roll(stored, 1, axis=0), axis=1).sum(1)
    back = restore(stored, "binary", dims)
    np.testing.assert_allclose(cosines(back, np.roll(back, 1, axis=0)), 1 - 2 * differing / dims, atol=1e-5)


def test_restored_vectors_are_as_close_as_their_bytes_allow() -> None:
    vectors = load().cut(1).encode(["a small cup", "the bus is late", "where is my card?"])
    for kind, least in (("float32", 1 - 1e-6), ("float16", 1 - 1e-6), ("int8", 0.9995), ("binary", 0.7)):
        assert cosines(restore(store(vectors, kind), kind), vectors).min() > least
    assert np.array_equal(store(vectors, "float32"), vectors)


def test_other_libraries_read_the_bits() -> None:
    """The first dim is the highest bit of the first byte, as numpy, faiss and sentence-transformers have it."""
    assert store([[1, -1, -1, -1, -1, -1, -1, 1, 0.5]], "binary").tolist() == [[129, 128]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: store([[1.0]], "int4"), "cannot be stored as 'int4'; use one of float32, float16, int8, binary"),
        (lambda: store([1.0, 2.0], "int8"), r"shape \(2,\); give one row per vector"),
        (lambda: store([[]], "int8"), r"shape \(1, 0\); give one row per vector"),
        (lambda: store("cup", "int8"), "was given str, not vectors of numbers"),
        (lambda: store([["cup"]], "int8"), "was given list, not vectors of numbers"),
        (lambda: store([[np.nan]], "int8"), "nan or inf; give vectors of finite numbers"),
        (lambda: store([[1e6]], "float16"), "beyond 65504"),
        (lambda: restore(np.ones((1, 4), np.float32), "int8"), "int8 vectors are of type int8, not float32"),
        (lambda: restore(np.ones((1, 4), np.uint8), "binary", 40), "not binary vectors of 40 dims"),
        (lambda: restore(np.ones((1, 4), np.int8), "int8", 3), "not int8 vectors of 3 dims"),
        (lambda: restore(np.ones((1, 4), np.int8), "int8", -3), "not int8 vectors of -3 dims"),
        (lambda: restore(np.ones((1, 4), np.int8), "int9"), "cannot be stored as 'int9'"),
    ],
)
def test_bad_input_is_named(call: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        call()  # type: ignore[operator]
