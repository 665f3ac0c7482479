from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from demitasse import DataError, Encoder, store

RANDOM = np.random.default_rng(0)
A, B = RANDOM.normal(size=(5, 8)), RANDOM.normal(size=(3, 8))


def cosine(left: np.ndarray, right: np.ndarray) -> float:
    return float(left @ right / np.linalg.norm(left) / np.linalg.norm(right))


def test_all_with_all_and_one_to_one(encoder: Encoder) -> None:
    matrix = encoder.similarity(A, B)
    assert matrix.shape == (5, 3)
    assert matrix.dtype == np.float32
    np.testing.assert_allclose(matrix, [[cosine(left, right) for right in B] for left in A], atol=1e-6)
    np.testing.assert_allclose(encoder.similarity_pairwise(A[:3], B), np.diag(matrix), atol=1e-6)


def test_one_vector_is_one_row(encoder: Encoder) -> None:
    np.testing.assert_allclose(encoder.similarity(A[0], B), encoder.similarity(A[:1], B), atol=1e-6)
    assert encoder.similarity_pairwise(A[0], A[0]) == pytest.approx([1])


@pytest.mark.parametrize("values", [A.tolist(), torch.tensor(A), A.astype(np.float16), store(A, "int8")])
def test_whatever_holds_numbers_is_compared(encoder: Encoder, values: Any) -> None:
    np.testing.assert_allclose(encoder.similarity(values, B), encoder.similarity(A, B), atol=0.02)


def test_no_vectors_have_no_cosines(encoder: Encoder) -> None:
    assert encoder.similarity(np.empty((0, 8)), B).shape == (0, 3)
    assert encoder.similarity_pairwise(np.empty((0, 8)), np.empty((0, 8))).shape == (0,)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_a_cosine_does_not_depend_on_the_length(encoder: Encoder, scale: float) -> None:
    np.testing.assert_allclose(encoder.similarity(A * scale, B), encoder.similarity(A, B), atol=1e-6)
    assert (encoder.similarity(np.zeros((1, 8)), B) == 0).all()


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (A, B[:, :4], "vectors of 8 and of 4 dims; compare vectors of one cut"),
        (A[None], B, r"shape \(1, 5, 8\); give one row per vector"),
        (A, 3.0, r"shape \(\); give one row per vector"),
        (A, [["a"]], "list, which is not an array of numbers"),
        (A, [[1.0], [1.0, 2.0]], "list, which is not an array of numbers"),
        (A, torch.tensor(B, requires_grad=True), "Tensor, which is not an array of numbers"),
        (A, B * np.nan, "nan or inf"),
        (A, store(B, "binary"), "binary vectors"),
    ],
)
def test_what_cannot_be_compared_is_named(encoder: Encoder, first: Any, second: Any, said: str) -> None:
    for call in (encoder.similarity, encoder.similarity_pairwise):
        with pytest.raises(DataError, match=said):
            call(first, second)


def test_one_to_one_wants_as_many_of_each(encoder: Encoder) -> None:
    with pytest.raises(DataError, match="5 and 3 vectors; give as many of each"):
        encoder.similarity_pairwise(A, B)
