"""The vectors of a task's texts at any cut, each text encoded once. No torch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from demitasse.encoding.encoder import Encoder
from demitasse.encoding.vectors import Vectors, unit_length
from demitasse.evaluation.embedding_cache import EmbeddingCache, encode_layers
from demitasse.evaluation.tasks import Task
from demitasse.host.progress import Advance


@dataclass(frozen=True)
class SideVectors:
    """The vectors of one side of a task, at any cut."""

    by_layers: Mapping[int, Vectors]  # of the distinct texts, at full width, by number of layers
    indices: npt.NDArray[np.int64]  # of each text of the side among the distinct texts

    def __call__(self, layers: int, dims: int) -> Vectors:
        """One vector for each text of the side."""
        return narrowed(self.by_layers[layers], dims)[self.indices]


def encode_sides(
    encoder: Encoder,
    task: Task,
    layers: tuple[Collection[int], Collection[int]],
    open_cache: Callable[[str | None], EmbeddingCache | None] = lambda prompt: None,
    advance: Advance = lambda count: None,
) -> tuple[SideVectors, SideVectors]:
    """The vectors of both sides of `task`, each at its own numbers of `layers`; each text is encoded once."""
    texts = texts_of(task)
    needed: dict[str | None, set[int]] = {prompt: set() for prompt in texts}
    for side, numbers in zip(task.sides, layers, strict=True):
        needed[side.prompt_name] |= {*numbers}
    vectors = {
        prompt: encode_layers(encoder, distinct, needed[prompt], prompt, open_cache(prompt), advance)
        for prompt, distinct in texts.items()
    }
    index = {prompt: {text: number for number, text in enumerate(distinct)} for prompt, distinct in texts.items()}
    first, second = (
        SideVectors(vectors[prompt], np.array([index[prompt][text] for text in side])) for side, prompt in task.sides
    )
    return first, second


def texts_of(task: Task) -> dict[str | None, list[str]]:
    """The distinct texts of both sides, by prompt."""
    distinct: dict[str | None, dict[str, None]] = {}
    for texts, prompt in task.sides:
        distinct.setdefault(prompt, {}).update(dict.fromkeys(texts))
    return {prompt: [*texts] for prompt, texts in distinct.items()}


def narrowed(vectors: Vectors, dims: int) -> Vectors:
    """The first `dims` of each vector, scaled to unit length again."""
    return vectors if dims == vectors.shape[1] else unit_length(vectors[:, :dims])
