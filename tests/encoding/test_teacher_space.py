from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from demitasse.encoding.teacher_space import (
    SpaceTeacher,
    TeacherSpace,
    joined,
    read_back,
    space_of,
    teachers_in,
    turned,
    written,
)
from demitasse.encoding.vectors import unit_length
from demitasse.errors import FolderError
from demitasse.host.fields import Fields

TEACHERS = (SpaceTeacher("a", "f" * 64, 3, 0.75), SpaceTeacher("b/c", "e" * 64, 2, 0.25, {"query": "q: "}))


def vectors(count: int, dims: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, dims)).astype(np.float32)


def a_space(dims: int = 4) -> TeacherSpace:
    return TeacherSpace(TEACHERS, vectors(dims, 5), vectors(1, dims, seed=1)[0])


def test_a_cosine_of_joined_vectors_is_the_weighted_mean() -> None:
    one, other = vectors(6, 3), 9 * vectors(6, 2, seed=1)
    both = joined([one, other], [0.75, 0.25])
    np.testing.assert_allclose(np.linalg.norm(both, axis=1), 1, rtol=1e-6)
    first, second = unit_length(one), unit_length(other)
    np.testing.assert_allclose(both @ both.T, 0.75 * first @ first.T + 0.25 * second @ second.T, atol=1e-6)


@pytest.mark.parametrize("centre", [False, True])
def test_the_turn_keeps_as_much_as_any_map_to_as_many_dims_can(centre: bool) -> None:
    seen = (vectors(500, 8) @ np.diag(np.arange(8.0, 0, -1)) + 3 * centre).astype(np.float32)
    mean = seen.mean(0).astype(np.float64) if centre else None
    weight, bias = turned((seen.T @ seen / 500).astype(np.float64), mean, 3)
    kept = TeacherSpace((SpaceTeacher("a", "", 8, 1.0),), weight, bias)(seen)
    values = np.linalg.svd(seen - (0 if mean is None else mean.astype(np.float32)), compute_uv=False)
    np.testing.assert_allclose((kept**2).sum(0), values[:3] ** 2, rtol=1e-4)
    np.testing.assert_allclose(weight @ weight.T, np.eye(3), atol=1e-5)


def test_the_parts_of_all_teachers_add_up() -> None:
    space, one, other = a_space(), unit_length(vectors(6, 3)), unit_length(vectors(6, 2, seed=1))
    whole = space(joined([one, other], [0.75, 0.25]))
    (weight, bias), (more, rest) = space.part(0), space.part(1)
    np.testing.assert_allclose(one @ weight.T + bias + other @ more.T + rest, whole, atol=1e-5)
    np.testing.assert_array_equal(space.first(2)(joined([one, other], [0.75, 0.25])), whole[:, :2])


def test_a_space_is_written_and_read_back() -> None:
    space = a_space()
    again = read_back(TEACHERS, 4, written(space), Path("space.bin"))
    np.testing.assert_array_equal(again.weight, space.weight)
    np.testing.assert_array_equal(again.bias, space.bias)
    fields = Fields(space.described(), "demitasse.json", "save again")
    assert teachers_in(fields) == TEACHERS


@pytest.mark.parametrize(
    "change",
    [
        {"teachers": []},
        {"teachers": [{"name": "a"}]},
        {"teachers": 7},
        {"teachers": [{**vars(TEACHERS[0]), "dims": 0}]},
        {"teachers": [{**vars(TEACHERS[0]), "weight": 1e300}]},
    ],
)
def test_bad_teachers_are_one_sentence(change: dict[str, Any]) -> None:
    with pytest.raises(FolderError, match=r"demitasse\.json"):
        teachers_in(Fields(change, "demitasse.json", "save again"))


def test_bad_maps_are_refused() -> None:
    with pytest.raises(FolderError, match="has 7 bytes"):
        read_back(TEACHERS, 4, b"1234567", Path("space.bin"))
    with pytest.raises(FolderError, match="for teachers of 5 dims"):
        space_of(TEACHERS, vectors(4, 6), vectors(1, 4)[0], Path("exits.safetensors"))
    for odd in (np.nan, np.inf, -3e38, 1e30):
        with pytest.raises(FolderError, match="NaN or huge numbers"):
            space_of(TEACHERS, np.full((4, 5), odd, np.float32), vectors(1, 4)[0], Path("exits.safetensors"))
        with pytest.raises(FolderError, match="NaN or huge numbers"):
            space_of(TEACHERS, vectors(4, 5), np.full(4, odd, np.float32), Path("exits.safetensors"))
