"""`TeacherSpace`: the space that a model shares with its teachers, and the way from their vectors into it. Pure numpy.

The vectors of all teachers, each of unit length, are put side by side, each scaled by the root of its weight: a cosine
of these joined vectors is the weighted mean of the teachers' own. One linear map, y = W x + b, turns them to the
model's dims, ordered so that the first dims keep most of the similarities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from demitasse.encoding.vectors import Vectors, unit_length
from demitasse.errors import FolderError
from demitasse.host.fields import Fields

_LARGEST = 1e6  # of the numbers of a map, which are below 2: with huge ones, sums are infinite and vectors are zeros
ROLES = ("query", "document", "sentence")  # what a text can be to a teacher that has prompts


@dataclass(frozen=True)
class SpaceTeacher:
    """One teacher of a space: which model it is, what it weighs, and what it was given to read."""

    name: str  # folder or hub name
    fingerprint: str  # of its weights in fp32
    dims: int
    weight: float
    prompts: Mapping[str, str] = field(default_factory=dict)  # put before texts, by role; a role without one has none


@dataclass(frozen=True, eq=False)
class TeacherSpace:
    """The teachers of a space, in order, and the map from their joined vectors into it."""

    teachers: tuple[SpaceTeacher, ...]
    weight: Vectors  # (D, T)
    bias: Vectors  # (D,)

    @property
    def dims(self) -> int:
        """How many dims it has."""
        return int(self.weight.shape[0])

    def first(self, dims: int) -> TeacherSpace:
        """The same space, its first `dims` only."""
        return replace(self, weight=self.weight[:dims].copy(), bias=self.bias[:dims].copy())

    def part(self, number: int) -> tuple[Vectors, Vectors]:
        """The map of one teacher's unit-length vectors: its weight (D, dims), and its share of the bias.

        The parts of all teachers add up to the whole.
        """
        begin = sum(teacher.dims for teacher in self.teachers[:number])
        teacher = self.teachers[number]
        weight = self.weight[:, begin : begin + teacher.dims] * np.float32(np.sqrt(teacher.weight))
        return np.ascontiguousarray(weight), self.bias / np.float32(len(self.teachers))

    def __call__(self, joined: Vectors) -> Vectors:
        """The vectors (B, D) of `joined` ones (B, T), not of unit length."""
        return joined @ self.weight.T + self.bias

    def described(self) -> dict[str, Any]:
        """The teachers as JSON values, for the manifest; the numbers are in a file beside it."""
        return {
            "teachers": [
                {
                    "name": teacher.name,
                    "fingerprint": teacher.fingerprint,
                    "dims": teacher.dims,
                    "weight": teacher.weight,
                    "prompts": dict(teacher.prompts),
                }
                for teacher in self.teachers
            ]
        }


def joined(vectors: Sequence[Vectors], weights: Sequence[float]) -> Vectors:
    """The vectors (B, T) of several teachers side by side, each of unit length times the root of its weight.

    >>> joined([np.float32([[3, 4]]), np.float32([[2]])], [0.25, 0.75]).round(2).tolist()
    [[0.30000001192092896, 0.4000000059604645, 0.8700000047683716]]
    """
    return np.concatenate(
        [unit_length(own) * np.float32(np.sqrt(weight)) for own, weight in zip(vectors, weights, strict=True)], axis=1
    )


def turned(
    moments: npt.NDArray[np.float64], mean: npt.NDArray[np.float64] | None, dims: int
) -> tuple[Vectors, Vectors]:
    """The map, weight (D, T) and bias (D,), to the `dims` directions that hold most of vectors.

    `moments` (T, T) are the mean products of the vectors; with `mean` (T,) they are centred first.
    """
    centred = moments if mean is None else moments - np.outer(mean, mean)
    _, axes = np.linalg.eigh(centred)
    axes = axes[:, ::-1][:, :dims]  # the largest first
    # A direction and its opposite are equally right: take the one whose largest entry is positive.
    axes = axes * np.sign(axes[np.abs(axes).argmax(0), np.arange(axes.shape[1])])
    bias = np.zeros(axes.shape[1]) if mean is None else -mean @ axes
    return np.ascontiguousarray(axes.T, dtype=np.float32), np.asarray(bias, np.float32)


def written(space: TeacherSpace) -> bytes:
    """The map as bytes, for a folder of blocks: rows of fp32, each with its number of the bias last."""
    return np.concatenate([space.weight, space.bias[:, None]], axis=1).astype("<f4").tobytes()


def read_back(teachers: tuple[SpaceTeacher, ...], dims: int, content: bytes, where: Path) -> TeacherSpace:
    """What was `written` to the file `where`, for a space of `dims`."""
    columns = sum(teacher.dims for teacher in teachers) + 1
    if len(content) != 4 * dims * columns:
        raise FolderError(
            f"{where} has {len(content)} bytes, and the map of its teachers takes {4 * dims * columns}; copy or export "
            "the model again"
        )
    values = np.frombuffer(content, "<f4").reshape(dims, columns)
    return space_of(teachers, values[:, :-1].copy(), values[:, -1].copy(), where)


def teachers_in(fields: Fields) -> tuple[SpaceTeacher, ...]:
    """What `described` wrote."""
    found = tuple(
        SpaceTeacher(
            one.name("name"),
            one.text("fingerprint"),
            one.whole("dims", least=1, most=1 << 20),
            one.number("weight", least=0, most=1),
            one.text_of("prompts") if one.has("prompts") else {},
        )
        for one in fields.each("teachers")
    )
    if not found:
        raise fields.problem("has a space without teachers")
    return found


def space_of(teachers: tuple[SpaceTeacher, ...], weight: Vectors, bias: Vectors, where: Path) -> TeacherSpace:
    """The space with this map, read from the file `where`; it must fit its teachers."""
    total = sum(teacher.dims for teacher in teachers)
    if weight.ndim != 2 or weight.shape[1] != total or bias.shape != weight.shape[:1]:
        raise FolderError(
            f"{where} has a map of shape {weight.shape} for teachers of {total} dims; copy or save the model again"
        )
    if not all((abs(numbers) <= _LARGEST).all() for numbers in (weight, bias)):  # which NaN is not, either
        raise FolderError(f"{where} has NaN or huge numbers in the map of its teachers; copy the model again")
    return TeacherSpace(teachers, weight, bias)
