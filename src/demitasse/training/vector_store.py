"""Teachers' vectors on disk, by text: each computed once, whatever run asks for it.

A folder for each teacher, named after it and its fingerprint, holds files of some thousand vectors in fp16, each with
the hash of its text. A file appears complete or not at all, so a run that was killed goes on where it was, and runs
that share a folder share its vectors.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from demitasse.errors import FolderError
from demitasse.host.atomic import new_file
from demitasse.host.leftovers import sweep
from demitasse.host.npy_files import map_npy
from demitasse.training.numbered_texts import Hashes

PER_FILE = 1 << 15  # vectors: what a crash can cost
_NAME = "vectors-{}.npy"
_CURE = "remove it, and it is made again"


class VectorStore:
    """The vectors of one teacher."""

    def __init__(self, folder: Path, dims: int) -> None:
        self.folder, self.dims = folder, dims
        self._type = np.dtype([("text", "<u8"), ("vector", "<f2", (dims,))])

    def missing(self, texts: Hashes) -> npt.NDArray[np.bool_]:
        """Which of `texts` have no vector yet; what a run that was killed left half written is removed."""
        sweep(self.folder)  # files have new names each time, so none of them would be swept with its own
        absent = np.ones(len(texts), bool)
        for chosen, _ in self._parts(texts):
            absent[chosen] = False
        return absent

    def add(self, texts: Hashes, vectors: npt.NDArray[np.floating[Any]]) -> None:
        """Keep the vectors of some texts."""
        rows = np.empty(len(texts), self._type)
        rows["text"], rows["vector"] = texts, vectors
        with new_file(self.folder / _NAME.format(secrets.token_hex(6))) as file:
            np.save(file, rows)

    def parts(self, texts: Hashes) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.float16]]]:
        """The vectors of `texts`, file by file: indices of `texts`, and the vector of each.

        All of them must be there.
        """
        found = np.zeros(len(texts), bool)
        for chosen, rows in self._parts(texts):
            vectors = rows["vector"]
            if not np.isfinite(vectors).all():
                raise FolderError(f"{self.folder} has a file with NaN or infinite numbers; remove the folder")
            found[chosen] = True
            yield chosen, vectors
        if not found.all():
            raise FolderError(f"{self.folder} has no vector of some text of this run; resume to make it")

    def _parts(self, texts: Hashes) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[Any]]]:
        """For each file, which of `texts` it has, and its rows of them."""
        order = np.argsort(texts, kind="stable")
        ordered = texts[order]
        for path in sorted(self.folder.glob(_NAME.format("*"))):
            rows = map_npy(path)
            if rows.dtype != self._type or rows.ndim != 1:
                raise FolderError(f"{path} is damaged, or has the vectors of another teacher; {_CURE}")
            here = np.asarray(rows["text"])
            # Several of `texts` may be the same one.
            begin, end = np.searchsorted(ordered, here, "left"), np.searchsorted(ordered, here, "right")
            counts = end - begin
            which = np.repeat(np.arange(len(here)), counts)
            offsets = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
            yield order[begin[which] + offsets], rows[which]


def store_name(name: str, fingerprint: str) -> str:
    """The name of a teacher's folder: its own, so that people know it, and what tells it from all others.

    >>> store_name("models/nomic-embed", "9f86d081884c7d659a2f")
    'nomic-embed-9f86d081884c7d65'
    """
    plain = re.sub(r"[^\w.-]+", "-", Path(name).name)[:60].strip(".-") or "teacher"
    return f"{plain}-{fingerprint[:16]}"
