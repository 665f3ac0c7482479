"""Pieces of several requests computed as one batch. Runs in a worker thread."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from demitasse.cut import Cut
from demitasse.encoding.encoder import Encoder
from demitasse.encoding.mixed_depths import MixedTexts
from demitasse.encoding.packed_tokens import PackedTokens
from demitasse.encoding.vectors import Vectors
from demitasse.serving.messages import Kind
from demitasse.serving.reading import Prompts, Unread, read_all

_Row = tuple[PackedTokens, Cut, int]  # texts of a part, their cut, and the leading tokens that pooling leaves out


@dataclass(frozen=True)
class Passes:
    """What is worth a pass through the model of its own."""

    cost: int  # padded tokens that take as long as one more pass
    most: int  # padded tokens in one pass


# On a CPU, what is computed for more tokens does not fit the cache of a core. On a GPU, a pass of few tokens takes as
# long as one of many.
_PASSES = {"cpu": Passes(cost=24, most=256)}
_PASSES_ELSEWHERE = Passes(cost=16384, most=131072)


@dataclass(frozen=True, eq=False)
class Part:
    """Texts of one request in a batch, read or not."""

    texts: PackedTokens | Unread
    cut: Cut
    kind: Kind


@dataclass(frozen=True, eq=False)
class Embedded:
    """What a part gets."""

    vectors: Vectors
    tokens: int
    truncated: int  # texts
    read_seconds: float = 0.0  # of all parts of the batch together


def embed_parts(encoder: Encoder, prompts: Prompts, parts: Sequence[Part]) -> list[Embedded | Exception]:
    """What each part gets, or why it gets nothing: what is wrong with one is not the others' problem."""
    begun = time.perf_counter()
    unread = [index for index, part in enumerate(parts) if isinstance(part.texts, Unread)]
    texts: list[Any] = [part.texts for part in parts]
    if unread:
        for index, packed in zip(unread, read_all(encoder, prompts, [texts[at] for at in unread]), strict=True):
            texts[index] = packed
    read_seconds = time.perf_counter() - begun
    sound = [index for index, packed in enumerate(texts) if isinstance(packed, PackedTokens)]
    rows = [(texts[index], parts[index].cut, prompts.left_out[parts[index].kind]) for index in sound]
    results: list[Any] = list(texts)  # the errors stay
    for index, vectors in zip(sound, _embedded_or_not(encoder, rows), strict=True):
        packed = texts[index]
        results[index] = (
            vectors
            if isinstance(vectors, Exception)
            else Embedded(vectors, int(packed.lengths.sum()), int(packed.truncated.sum()), read_seconds)
        )
    return results


def _embedded_or_not(encoder: Encoder, rows: Sequence[_Row]) -> Sequence[Vectors | Exception]:
    try:
        return _embedded(encoder, rows)
    except Exception as problem:  # whatever it is, it is handed to whom it concerns
        if len(rows) == 1:
            return [problem]
    return [_embedded_or_not(encoder, [row])[0] for row in rows]


def _embedded(encoder: Encoder, rows: Sequence[_Row]) -> list[Vectors]:
    if not rows:
        return []
    packed = PackedTokens.joined([packed for packed, _, _ in rows])
    counts = [len(packed) for packed, _, _ in rows]
    cuts = [cut for (_, cut, _), count in zip(rows, counts, strict=True) for _ in range(count)]
    left_out = np.repeat([left_out for _, _, left_out in rows], counts)
    vectors = embed_texts(encoder, MixedTexts(packed, cuts, left_out))
    ends = np.cumsum(counts).tolist()
    return [vectors[end - count : end, : cut.dims] for (_, cut, _), count, end in zip(rows, counts, ends, strict=True)]


def embed_texts(encoder: Encoder, texts: MixedTexts) -> Vectors:
    """The vector of each text at its own cut, 0 beyond its dims; in several passes where lengths differ much."""
    passes = similar_lengths(texts.packed.lengths, _PASSES.get(encoder.device_kind, _PASSES_ELSEWHERE))
    if len(passes) == 1:
        return encoder._embed_mixed(texts)
    vectors = np.zeros((len(texts), max(cut.dims for cut in texts.cuts)), np.float32)
    for chosen in passes:
        embedded = encoder._embed_mixed(texts.chosen(chosen))
        vectors[chosen, : embedded.shape[1]] = embedded
    return vectors


def similar_lengths(lengths: npt.NDArray[np.int64], passes: Passes) -> list[npt.NDArray[np.int64]]:
    """Indices of texts that should share a pass: apart where that saves more padded tokens than a pass costs.

    >>> [chosen.tolist() for chosen in similar_lengths(np.array([9, 90, 10, 8]), Passes(cost=24, most=256))]
    [[1], [2, 0, 3]]
    >>> [chosen.tolist() for chosen in similar_lengths(np.array([9, 10, 10]), Passes(cost=24, most=20))]
    [[1, 2], [0]]
    """
    order = np.argsort(-lengths, kind="stable")
    falling = lengths[order]
    groups, pending = [], [(0, len(order))]
    while pending:
        begin, end = pending.pop()
        longest = int(falling[begin])
        saved = (longest - falling[begin:end]) * np.arange(end - begin, 0, -1)
        best = int(saved.argmax())
        fitting = max(1, passes.most // longest)
        if saved[best] > passes.cost:
            pending += [(begin + best, end), (begin, begin + best)]
        elif end - begin > fitting:
            pending += [(begin + fitting, end), (begin, begin + fitting)]
        else:
            groups.append(order[begin:end])
    return groups
