"""Files of vectors: written once, never changed, mapped into memory by everyone who searches.

A file holds n vectors of d dims. Numbers are little-endian, and every array begins at a multiple of 64 bytes.

    rows            int64 (n)           the row of each vector's text in the catalog
    scales          float32 (n)         1 / length of each int8 vector, which makes its products cosines
    first_scales    float32 (n)         the same of its first dims alone
    bits            uint64 (d / 64, n)  the sign of each dim, in columns of 64 dims
    first           int8 (n, 64)        the first dims of each vector
    rest            int8 (n, d - 64)    the others

So every number of a vector is kept once, and the first pass of a search, over bits or first dims, reads these alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from demitasse.encoding.scan_kernels import WORD, Bits, Floats, Int8, scales_of, sign_bits
from demitasse.encoding.vectors import store
from demitasse.errors import FolderError, file_reason
from demitasse.host.atomic import new_file
from demitasse.search.catalog import SegmentEntry

FIRST_DIMS = 64
_ALIGNED = 64  # bytes
_CURE = "copy the index again, or build it again"
Rows = npt.NDArray[np.int64]
Arrays = Mapping[str, Iterable[npt.NDArray[Any]]]  # each in parts, in order


@dataclass(frozen=True)
class Layout:
    """How many vectors and dims a file has, and so where each array is."""

    count: int
    dims: int

    @cached_property
    def arrays(self) -> dict[str, tuple[np.dtype[Any], tuple[int, ...], int]]:
        """The type, the shape and the offset of each array."""
        count, dims, first = self.count, self.dims, min(FIRST_DIMS, self.dims)
        shapes: dict[str, tuple[str, tuple[int, ...]]] = {
            "rows": ("<i8", (count,)),
            "scales": ("<f4", (count,)),
            "first_scales": ("<f4", (count,)),
            "bits": ("<u8", (-(-dims // WORD), count)),
            "first": ("i1", (count, first)),
            "rest": ("i1", (count, dims - first)),
        }
        placed, offset = {}, 0
        for name, (kind, shape) in shapes.items():
            placed[name] = (np.dtype(kind), shape, offset)
            offset += -(-_bytes(kind, shape) // _ALIGNED) * _ALIGNED
        placed["end"] = (np.dtype("u1"), (0,), offset)
        return placed

    @property
    def bytes(self) -> int:
        """The size of the file."""
        return self.arrays["end"][2]


@dataclass(frozen=True, eq=False)
class Segment:
    """A file of vectors, mapped."""

    entry: SegmentEntry
    rows: Rows
    scales: Floats
    first_scales: Floats
    bits: Bits
    first: Int8
    rest: Int8

    def __len__(self) -> int:
        return self.entry.rows

    @property
    def dims(self) -> int:
        """The dims of a vector."""
        return int(self.first.shape[1] + self.rest.shape[1])

    def vectors(self, places: npt.NDArray[np.int64] | slice, dims: int) -> Floats:
        """The first `dims` of the vectors at `places`, as the numbers that are stored."""
        first = self.first[places] if isinstance(places, slice) else self.first.take(places, axis=0)
        values = np.empty((len(first), dims), np.float32)
        narrow = min(dims, first.shape[1])
        values[:, :narrow] = first[:, :narrow]
        if dims > narrow:
            rest = self.rest[places] if isinstance(places, slice) else self.rest.take(places, axis=0)
            values[:, narrow:] = rest[:, : dims - narrow]
        return values


def is_file_name(text: str) -> bool:
    """Whether a catalog may name a file so: a file inside its folder."""
    return Path(text).name == text and text not in ("", "..")


def open_segment(folder: Path, entry: SegmentEntry, dims: int) -> Segment:
    """The file that the catalog lists, mapped; one that cannot be it is refused."""
    path, layout = folder / entry.file, Layout(entry.rows, dims)
    if entry.rows < 1 or not is_file_name(entry.file):
        raise FolderError(f"{folder} cannot have a file of {entry.rows} vectors called {entry.file!a:.60}; {_CURE}")
    try:
        size = path.stat().st_size
        content = np.asarray(np.memmap(path, np.uint8, "r")) if size == layout.bytes else None
    except (OSError, ValueError) as problem:  # a damaged catalog may have a name that no file can have
        raise FolderError(f"{path} cannot be read ({file_reason(problem)}); {_CURE}") from problem
    if content is None:
        raise FolderError(f"{path} has {size} bytes and should have {layout.bytes}; {_CURE}")
    arrays = {
        name: content[offset : offset + _bytes(kind, shape)].view(kind).reshape(shape)
        for name, (kind, shape, offset) in layout.arrays.items()
        if name != "end"
    }
    return Segment(entry, **arrays)


@dataclass(frozen=True)
class Written:
    """A file of vectors that was written, for the catalog."""

    file: str
    layout: Layout
    sha256: str


def write_segment(path: Path, layout: Layout, arrays: Arrays) -> Written:
    """Write a file of vectors aside and move it into place."""
    digest, written = hashlib.sha256(), 0
    with new_file(path) as file:

        def put(content: bytes | memoryview) -> int:
            digest.update(content)
            return file.write(content)

        for name, (kind, _, offset) in layout.arrays.items():
            written += put(bytes(offset - written))
            for part in arrays.get(name, ()):
                written += put(np.ascontiguousarray(part, kind).reshape(-1).view(np.uint8).data)
        assert written == layout.bytes, f"{written} bytes written of {layout.bytes}"
    return Written(path.name, layout, digest.hexdigest())


def arrays_of(rows: Rows, vectors: Floats) -> dict[str, npt.NDArray[Any]]:
    """What a file holds of unit-length vectors."""
    stored: Int8 = store(vectors, "int8")
    narrow = min(FIRST_DIMS, stored.shape[1])
    return {
        "rows": rows,
        "scales": scales_of(stored),
        "first_scales": scales_of(stored[:, :narrow]),
        "bits": sign_bits(stored),
        "first": stored[:, :narrow],
        "rest": stored[:, narrow:],
    }


def blocks(segments: Sequence[Segment], size: int) -> Iterator[tuple[int, Segment, slice]]:
    """Pieces of at most `size` vectors: the position of the first of them, counted through all files, and where."""
    offset = 0
    for segment in segments:
        for start in range(0, len(segment), size):
            yield offset + start, segment, slice(start, min(start + size, len(segment)))
        offset += len(segment)


def _bytes(kind: str | np.dtype[Any], shape: tuple[int, ...]) -> int:
    size = np.dtype(kind).itemsize
    for length in shape:
        size *= length
    return size
