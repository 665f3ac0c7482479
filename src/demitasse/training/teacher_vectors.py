"""A frozen teacher's vectors of the texts a run will see, computed once and kept in its folder.

A step then costs no pass through the teacher, a second epoch costs nothing at all, and a resumed run sees the very same
numbers. The teacher is any encoder, with its own tokenizer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from demitasse.data.pairs import Pairs
from demitasse.data.sampler import TextBatch
from demitasse.encoding.encoder import Encoder
from demitasse.host.atomic import new_file
from demitasse.host.progress import progress_bar

IN_MEMORY = 4 << 30  # bytes of vectors that are read into memory; beyond that they are mapped

Keys = npt.NDArray[np.int64]
_TEXT = (1 << 14) - 1  # the bits of a key that say which text of the row


class TeacherVectors:
    """The vectors of texts, by source, row and position in the row."""

    def __init__(self, folder: Path, name: str) -> None:
        self._keys: Keys = np.load(folder / f"{name}-texts.npy")
        vectors = folder / f"{name}-vectors.npy"
        small = vectors.stat().st_size <= IN_MEMORY
        self._vectors: npt.NDArray[np.float16] = np.load(vectors, mmap_mode=None if small else "r")

    def columns(self, batch: TextBatch) -> npt.NDArray[np.float16]:
        """The vectors (C, B, D) of a batch's columns."""
        indices = np.searchsorted(self._keys, keys_of(batch))  # (B, C)
        return np.ascontiguousarray(self._vectors[indices].transpose(1, 0, 2))


def keys_of(batch: TextBatch) -> Keys:
    """A number for each text of a batch (B, C): which source, which row, which text of the row."""
    return np.array([[key(batch.source, row, text) for text in texts] for row, texts in batch.rows], np.int64)


def key(source: int, row: int, text: int) -> int:
    """One number for one text of the training data."""
    return (source << 54) | (row << 14) | text


def write_vectors(
    folder: Path,
    name: str,
    teacher: Encoder,
    data: Pairs,
    batches: Iterable[TextBatch],
    prompts: Sequence[str] = (),
) -> None:
    """Encode every text of `batches` with `teacher`, in the order of the data, into two files of `folder`.

    `prompts` names those of anchors, positives, negatives; the last one is repeated. Texts of a group, which may be
    in either column, get the first.
    """
    if (folder / f"{name}-vectors.npy").is_file():
        return
    keys = np.unique(np.concatenate([keys_of(batch).ravel() for batch in batches]))
    with new_file(folder / f"{name}-texts.npy") as file:
        np.save(file, keys)
    grouped = np.array([source.kind == "groups" for source in data.sources])
    columns = np.where(grouped[keys >> 54], 0, np.minimum(keys & _TEXT, max(0, len(prompts) - 1)))
    with new_file(folder / f"{name}-vectors.npy") as file, progress_bar("teacher", len(keys)) as advance:
        header = {"descr": "<f2", "fortran_order": False, "shape": (len(keys), teacher.full.dims)}
        np.lib.format.write_array_header_1_0(file, header)
        begin = file.tell()
        for column in np.unique(columns):
            indices = np.flatnonzero(columns == column)
            prompt = prompts[column] if prompts else None
            vectors = teacher.encode_iter(_texts(data, keys[indices]), prompt_name=prompt, progress=False)
            for index, vector in zip(indices.tolist(), vectors, strict=True):
                file.seek(begin + 2 * teacher.full.dims * index)
                file.write(vector.astype(np.float16).tobytes())
                advance(1)


def _texts(data: Pairs, keys: Keys) -> Iterator[str]:
    example, known = None, (-1, -1)
    for value in keys.tolist():
        source, row = value >> 54, (value >> 14) & ((1 << 40) - 1)
        if (source, row) != known:
            example, known = data.sources[source][row], (source, row)
        assert example is not None
        yield example.texts[value & _TEXT]
