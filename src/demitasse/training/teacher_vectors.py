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
from demitasse.errors import FolderError
from demitasse.host.atomic import new_file
from demitasse.host.npy_files import map_npy
from demitasse.host.progress import progress_bar

IN_MEMORY = 4 << 30  # bytes of vectors that are read into memory; beyond that they are mapped

Keys = npt.NDArray[np.int64]
_CURE = "remove it and resume, and it is made again"
_TEXT = (1 << 14) - 1  # the bits of a key that say which text of the row


class TeacherVectors:
    """The vectors of texts, by source, row and position in the row."""

    def __init__(self, folder: Path, name: str) -> None:
        texts, self._path = folder / f"{name}-texts.npy", folder / f"{name}-vectors.npy"
        self._keys: Keys = np.array(map_npy(texts))
        vectors, small = map_npy(self._path), self._path.stat().st_size <= IN_MEMORY
        if self._keys.dtype != np.int64 or self._keys.ndim != 1 or (np.diff(self._keys) <= 0).any():
            raise FolderError(f"{texts} is damaged; {_CURE}")
        if vectors.dtype != np.float16 or vectors.ndim != 2 or len(vectors) != len(self._keys):
            raise FolderError(f"{self._path} is damaged, or belongs to other texts; {_CURE}")
        self._vectors: npt.NDArray[np.float16] = np.array(vectors) if small else vectors

    def columns(self, batch: TextBatch) -> npt.NDArray[np.float16]:
        """The vectors (C, B, D) of a batch's columns."""
        wanted = keys_of(batch)  # (B, C)
        indices = np.searchsorted(self._keys, wanted)
        if not np.array_equal(self._keys.take(indices, mode="clip"), wanted):
            raise FolderError(f"{self._path} has no vector of some text of this run; {_CURE}")
        columns = np.ascontiguousarray(self._vectors[indices].transpose(1, 0, 2))
        if not np.isfinite(columns).all():
            raise FolderError(f"{self._path} is damaged: it has NaN; {_CURE}")
        return columns


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
