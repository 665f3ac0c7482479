"""Vectors of texts at many numbers of layers; each text is encoded once and, with a folder, never again.

    CACHE/<model and prompt>/<hash of the content>.npy   some thousands of texts: the sha256 of each, and its vector
                                                         at full width for each number of layers, as record fields

A shard is written atomically as soon as its texts are encoded: a run that was killed continues where it stopped.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from demitasse._version import __version__
from demitasse.cut import Cut
from demitasse.encoding.block_encoder import BlockEncoder
from demitasse.encoding.encoder import Encoder
from demitasse.encoding.fingerprints import fingerprint
from demitasse.encoding.vectors import Vectors
from demitasse.errors import DataError
from demitasse.host.atomic import new_file
from demitasse.host.leftovers import sweep
from demitasse.host.npy_files import map_npy
from demitasse.host.progress import Advance

SHARD = 4096  # texts
_KEY = "text"
_KEY_BYTES = 32

Records = npt.NDArray[np.void]


class EmbeddingCache:
    """The vectors of an encoder for texts with one prompt, stored in a folder."""

    def __init__(self, folder: Path, encoder: Encoder, prompt_name: str | None) -> None:
        if folder.exists() and not folder.is_dir():
            raise DataError(f"the cache {folder} is a file; give a folder, which is created if needed")
        # Another version of demitasse might give slightly different vectors.
        content = encoder.content if isinstance(encoder, BlockEncoder) else None
        prefix = encoder.reader.prefix(prompt_name)
        # All digits: with some of them, somebody could make two models that share a folder.
        self._name = fingerprint([__version__, encoder.fingerprint, content, prefix])
        self._folder = folder / self._name
        self._dims = encoder.full.dims
        self._shards: list[Records] = []
        self._locations: dict[bytes, list[tuple[int, int]]] = {}  # for each text: shards, and the index in each
        sweep(self._folder)
        for path in sorted(self._folder.glob("*.npy")):
            self._open(path)

    def fill(self, texts: Sequence[str], by_layers: Mapping[int, Vectors]) -> list[int]:
        """Copy the cached vectors of `texts` into `by_layers`; returns the indices of the texts that are not cached."""
        wanted = {str(layers) for layers in by_layers}
        cached: dict[int, list[tuple[int, int]]] = {}
        missing = []
        for index, text in enumerate(texts):
            locations = self._locations.get(_key(text), ())
            location = next((at for at in locations if wanted <= set(self._shards[at[0]].dtype.names or ())), None)
            if location is None:
                missing.append(index)
            else:
                cached.setdefault(location[0], []).append((index, location[1]))
        for shard, pairs in cached.items():
            indices, sources = map(list, zip(*pairs, strict=True))
            for layers, vectors in by_layers.items():
                vectors[indices] = self._shards[shard][str(layers)][sources]
        return missing

    def add(self, texts: Sequence[str], by_layers: Mapping[int, Vectors]) -> None:
        """Store the vectors of `texts` in a new shard."""
        shard = np.empty(len(texts), self._dtype(by_layers))
        shard[_KEY] = np.frombuffer(b"".join(map(_key, texts)), f"V{_KEY_BYTES}")
        for layers, vectors in by_layers.items():
            shard[str(layers)] = vectors
        path = self._folder / f"{self._checksum(shard)}.npy"
        with new_file(path) as file:
            np.save(file, shard)
        self._open(path)

    def _open(self, path: Path) -> None:
        try:
            shard = map_npy(path)
            layers = [int(name) for name in (shard.dtype.names or ())[1:]]
            if shard.dtype != self._dtype(layers) or path.stem != self._checksum(shard):
                raise ValueError
        except ValueError:
            warnings.warn(
                f"{path} is damaged or belongs to another model; its texts will be encoded again", stacklevel=2
            )
            path.unlink(missing_ok=True)
            return
        for index, key in enumerate(_split(np.ascontiguousarray(shard[_KEY]).tobytes())):
            self._locations.setdefault(key, []).append((len(self._shards), index))
        self._shards.append(shard)

    def _dtype(self, layers: Collection[int]) -> np.dtype[Any]:
        vectors = [(str(number), "<f4", (self._dims,)) for number in layers]
        return np.dtype([(_KEY, f"V{_KEY_BYTES}"), *vectors])

    def _checksum(self, shard: Records) -> str:
        return hashlib.sha256(self._name.encode() + shard.tobytes()).hexdigest()


def encode_layers(
    encoder: Encoder,
    texts: Sequence[str],
    layers: Collection[int],
    prompt_name: str | None,
    cache: EmbeddingCache | None,
    advance: Advance,
) -> dict[int, Vectors]:
    """The vectors of `texts` (without duplicates) at full width and each number of `layers`, from one pass."""
    dims = encoder.full.dims
    cuts = [Cut(number, dims) for number in layers]
    by_layers = {number: np.empty((len(texts), dims), np.float32) for number in sorted(layers)}
    # In parts even without a cache: the last bit of a vector may depend on the texts it is batched with.
    for start in range(0, len(texts), SHARD):
        part = texts[start : start + SHARD]
        views = {number: vectors[start : start + SHARD] for number, vectors in by_layers.items()}
        missing = list(range(len(part))) if cache is None else cache.fill(part, views)
        advance(len(part) - len(missing))
        if not missing:
            continue
        new = [part[index] for index in missing]
        encoded = encoder.encode_cuts(new, cuts, prompt_name=prompt_name, progress=advance)
        for number, view in views.items():
            view[missing] = encoded[Cut(number, dims)]
        if cache is not None:
            cache.add(new, {number: encoded[Cut(number, dims)] for number in by_layers})
    return by_layers


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _split(keys: bytes) -> Iterator[bytes]:
    return (keys[start : start + _KEY_BYTES] for start in range(0, len(keys), _KEY_BYTES))
