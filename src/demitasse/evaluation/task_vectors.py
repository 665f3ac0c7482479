"""The rows of a task's texts at any cut, each text encoded once. No torch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from demitasse.encoding.encoder import Encoder
from demitasse.encoding.vectors import Vectors, unit_length
from demitasse.evaluation.embedding_cache import EmbeddingCache, encode_layers
from demitasse.evaluation.tasks import Task


@dataclass(frozen=True)
class SideVectors:
    """The rows of one side of a task, at any cut."""

    rows: Mapping[int, Vectors]  # at full width, by number of layers
    numbers: npt.NDArray[np.int64]  # of each text: its row

    def __call__(self, layers: int, dims: int) -> Vectors:
        """A row for each text of the side."""
        return narrowed(self.rows[layers], dims)[self.numbers]


def encode_sides(
    encoder: Encoder,
    task: Task,
    layers: tuple[Collection[int], Collection[int]],
    cache: Callable[[str | None], EmbeddingCache | None] = lambda prompt: None,
    advance: Callable[[int], None] = lambda count: None,
) -> tuple[SideVectors, SideVectors]:
    """The rows of both sides of `task`, each at its numbers of `layers`, each text encoded once."""
    texts = texts_of(task)
    needed: dict[str | None, set[int]] = {prompt: set() for prompt in texts}
    for side, numbers in zip(task.sides, layers, strict=True):
        needed[side.prompt] |= {*numbers}
    rows = {
        prompt: encode_layers(encoder, held, needed[prompt], prompt, cache(prompt), advance)
        for prompt, held in texts.items()
    }
    places = {prompt: {text: number for number, text in enumerate(held)} for prompt, held in texts.items()}
    first, second = (
        SideVectors(rows[prompt], np.array([places[prompt][text] for text in side])) for side, prompt in task.sides
    )
    return first, second


def texts_of(task: Task) -> dict[str | None, list[str]]:
    """The texts of both sides by their prompt, none of them twice."""
    found: dict[str | None, dict[str, None]] = {}
    for texts, prompt in task.sides:
        found.setdefault(prompt, {}).update(dict.fromkeys(texts))
    return {prompt: [*texts] for prompt, texts in found.items()}


def narrowed(rows: Vectors, dims: int) -> Vectors:
    """The first `dims` of each row, made of unit length again."""
    return rows if dims == rows.shape[1] else unit_length(rows[:, :dims])
