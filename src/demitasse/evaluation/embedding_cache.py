"""Rows of texts at many numbers of layers, each text encoded once and, where a folder is given, never again.

    CACHE/<model and prompt>/<hash of the content>.npy   some thousands of texts: the sha256 of each, and its row at
                                                         full width for each number of layers, as fields of a record

A shard appears whole or not at all, as soon as its texts are encoded: a run that was killed goes on where it was.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from demitasse._version import __version__
from demitasse.cut import Cut
from demitasse.encoding.encoder import Encoder
from demitasse.encoding.fingerprints import fingerprint
from demitasse.encoding.vectors import Vectors
from demitasse.errors import DataError
from demitasse.host.atomic import new_file

SHARD = 4096  # texts
_KEY = "text"
_KEY_BYTES = 32

Records = npt.NDArray[np.void]


class EmbeddingCache:
    """What an encoder made of texts under one prompt, kept in a folder."""

    def __init__(self, folder: Path, encoder: Encoder, prompt: str | None) -> None:
        if folder.exists() and not folder.is_dir():
            raise DataError(f"the cache {folder} is a file; give a folder, which is made where there is none")
        # Of another version of demitasse, rows might be a little different.
        self._name = fingerprint([__version__, encoder.fingerprint, encoder.reader.prompt(prompt)])[:16]
        self._folder = folder / self._name
        self._dims = encoder.full.dims
        self._shards: list[Records] = []
        self._places: dict[bytes, list[tuple[int, int]]] = {}  # of each text: shards, and where in them
        for path in sorted(self._folder.glob("*.npy")):
            self._open(path)

    def fill(self, texts: Sequence[str], rows: Mapping[int, Vectors]) -> list[int]:
        """Put what is known of `texts` into `rows`, by number of layers; the places of texts that are not known."""
        wanted = {str(layers) for layers in rows}
        found: dict[int, list[tuple[int, int]]] = {}
        missing = []
        for place, text in enumerate(texts):
            shards = self._places.get(_key(text), ())
            known = next((at for at in shards if wanted <= set(self._shards[at[0]].dtype.names or ())), None)
            if known is None:
                missing.append(place)
            else:
                found.setdefault(known[0], []).append((place, known[1]))
        for shard, pairs in found.items():
            places, sources = map(list, zip(*pairs, strict=True))
            for layers, target in rows.items():
                target[places] = self._shards[shard][str(layers)][sources]
        return missing

    def add(self, texts: Sequence[str], rows: Mapping[int, Vectors]) -> None:
        """Keep the rows of `texts`, by number of layers, in a shard of their own."""
        shard = np.empty(len(texts), self._dtype(rows))
        shard[_KEY] = np.frombuffer(b"".join(map(_key, texts)), f"V{_KEY_BYTES}")
        for layers, vectors in rows.items():
            shard[str(layers)] = vectors
        path = self._folder / f"{self._checksum(shard)}.npy"
        with new_file(path) as file:
            np.save(file, shard)
        self._open(path)

    def _open(self, path: Path) -> None:
        try:
            shard = np.load(path, mmap_mode="r", allow_pickle=False)
            layers = [int(name) for name in shard.dtype.names[1:]]
            if shard.dtype != self._dtype(layers) or path.stem != self._checksum(shard):
                raise ValueError
        except (OSError, ValueError, TypeError, EOFError):
            warnings.warn(f"{path} is broken or of another model; its texts are encoded again", stacklevel=2)
            path.unlink(missing_ok=True)
            return
        for row, key in enumerate(_parts(np.ascontiguousarray(shard[_KEY]).tobytes())):
            self._places.setdefault(key, []).append((len(self._shards), row))
        self._shards.append(shard)

    def _dtype(self, layers: Collection[int]) -> np.dtype[Any]:
        rows = [(str(number), "<f4", (self._dims,)) for number in layers]
        return np.dtype([(_KEY, f"V{_KEY_BYTES}"), *rows])

    def _checksum(self, shard: Records) -> str:
        return hashlib.sha256(self._name.encode() + shard.tobytes()).hexdigest()[:16]


def encode_layers(
    encoder: Encoder,
    texts: Sequence[str],
    layers: Collection[int],
    prompt: str | None,
    cache: EmbeddingCache | None,
    advance: Callable[[int], None],
) -> dict[int, Vectors]:
    """The rows of `texts`, none of which is there twice, at full width and each number of `layers`, from one pass."""
    dims = encoder.full.dims
    rows = {number: np.empty((len(texts), dims), np.float32) for number in sorted(layers)}
    # In parts with a cache and without one: a row may differ in its last bit with the texts it is batched with.
    for start in range(0, len(texts), SHARD):
        part = texts[start : start + SHARD]
        views = {number: held[start : start + SHARD] for number, held in rows.items()}
        missing = list(range(len(part))) if cache is None else cache.fill(part, views)
        advance(len(part) - len(missing))
        if not missing:
            continue
        new = [part[place] for place in missing]
        made = encoder.encode_cuts(new, [Cut(number, dims) for number in rows], prompt=prompt, progress=advance)
        for number, view in views.items():
            view[missing] = made[Cut(number, dims)]
            if not np.isfinite(view[missing]).all():  # of half precision, as a rule: a state was too large for it
                wanted = "choose another precision, or fewer layers"
                raise DataError(f"the model gives vectors of nan at {number} layers in {encoder.precision}; {wanted}")
        if cache is not None:
            cache.add(new, {number: made[Cut(number, dims)] for number in rows})
    return rows


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _parts(keys: bytes) -> Iterator[bytes]:
    return (keys[start : start + _KEY_BYTES] for start in range(0, len(keys), _KEY_BYTES))
