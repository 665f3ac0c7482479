"""A frozen teacher's vectors of the texts a run will see, made once and kept in a file beside it.

So a step costs no pass through the teacher, a second epoch costs nothing at all, and a run that goes on after a crash
sees the very same numbers. The teacher is any encoder, with its own tokenizer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from demitasse.atomic import new_file
from demitasse.encoder import Encoder
from demitasse.pairs import Pairs
from demitasse.progress import progress_bar
from demitasse.sampling import TextBatch

HELD = 4 << 30  # bytes of vectors that are read into memory; more are read from the file as they are needed

Keys = npt.NDArray[np.int64]


class TeacherVectors:
    """The vectors of texts, by source, row and place in the row."""

    def __init__(self, folder: Path, name: str) -> None:
        self._keys: Keys = np.load(folder / f"{name}-texts.npy")
        vectors = folder / f"{name}-vectors.npy"
        held = vectors.stat().st_size <= HELD
        self._vectors: npt.NDArray[np.float16] = np.load(vectors, mmap_mode=None if held else "r")

    def columns(self, batch: TextBatch) -> npt.NDArray[np.float16]:
        """The vectors (C, B, D) of a batch's columns."""
        places = np.searchsorted(self._keys, keys_of(batch))  # (B, C)
        return np.ascontiguousarray(self._vectors[places].transpose(1, 0, 2))


def keys_of(batch: TextBatch) -> Keys:
    """A number for each text of a batch (B, C): which source, which row, which text of the row."""
    return np.array([[key(batch.source, row, text) for text in texts] for row, texts in batch.rows], np.int64)


def key(source: int, row: int, text: int) -> int:
    """One number for one text of the training data."""
    return (source << 54) | (row << 14) | text


def write_vectors(folder: Path, name: str, teacher: Encoder, data: Pairs, batches: Iterable[TextBatch]) -> None:
    """Encode every text of `batches` with `teacher`, in the order of the data, into two files of `folder`."""
    if (folder / f"{name}-vectors.npy").is_file():
        return
    keys = np.unique(np.concatenate([keys_of(batch).ravel() for batch in batches]))
    with new_file(folder / f"{name}-texts.npy") as file:
        np.save(file, keys)
    texts = _texts(data, keys)
    with new_file(folder / f"{name}-vectors.npy") as file, progress_bar("teacher", len(keys)) as advance:
        header = {"descr": "<f2", "fortran_order": False, "shape": (len(keys), teacher.full.dims)}
        np.lib.format.write_array_header_1_0(file, header)
        for vector in teacher.encode_iter(texts, progress=False):
            file.write(vector.astype(np.float16).tobytes())
            advance(1)


def _texts(data: Pairs, keys: Keys) -> Iterator[str]:
    row, place = None, (-1, -1)
    for value in keys.tolist():
        here = (value >> 54, (value >> 14) & ((1 << 40) - 1))
        if here != place:
            row, place = data.sources[here[0]][here[1]], here
        assert row is not None
        yield row.texts[value & ((1 << 14) - 1)]
