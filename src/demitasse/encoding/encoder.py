"""`Encoder`: texts to unit-length float32 vectors, at any cut; what every kind of encoder has in common. No torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Self

import numpy as np

from demitasse.cut import Cut
from demitasse.encoding.pooling import Pooling
from demitasse.encoding.reader import Reader
from demitasse.encoding.vectors import Vectors
from demitasse.errors import CutError
from demitasse.host.progress import progress_bar


class Encoder(ABC):
    """A sentence-embedding model that can be cut to fewer layers and dims.

    Made by `demitasse.load`, and never changed after that. One kind runs on torch and can be fitted, trained and
    exported; the other runs exported blocks on onnxruntime, without torch.

    >>> encoder
    Encoder(3x32, BertModel, mean, cpu)
    >>> small = encoder.cut(layers=2, dims=8)
    >>> small.encode(["a ristretto", "a lungo"]).shape
    (2, 8)
    """

    reader: Reader
    pooling: Pooling
    dims: int
    record: Mapping[str, Any]  # where it comes from, what was fitted or trained

    @property
    @abstractmethod
    def full(self) -> Cut:
        """The largest cut this encoder gives, and the one `encode` uses."""

    @property
    @abstractmethod
    def architecture(self) -> str:
        """The class of the model, such as `BertModel`."""

    @property
    def name(self) -> str:
        """The folder or hub name it was loaded from; without one, its architecture."""
        return str((self.record.get("source") or {}).get("name") or self.architecture)

    @property
    @abstractmethod
    def exit_depths(self) -> list[int]:
        """The depths that have an exit of their own; the others use the model's own readout."""

    @property
    @abstractmethod
    def runtime(self) -> str:
        """What runs the model: `torch`, or `blocks` for onnxruntime."""

    @property
    @abstractmethod
    def device_kind(self) -> str:
        """The kind of device it runs on: `cpu`, `cuda`, `mps`, `coreml` or `dml`."""

    @property
    @abstractmethod
    def place(self) -> str:
        """Where and how the model runs, for people to read: `cpu`, `cuda:0 float16`, `int8 blocks, cpu`."""

    @property
    @abstractmethod
    def precision(self) -> str:
        """The number format of the weights: `fp32`, `fp16`, `bf16` or `int8`."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Names (hex sha256) everything that makes the vectors: weights, exits, pooling, tokenizer, prompts, precision.

        It is the same after saving and loading, and on every device. A cut has its own, since the number of layers and
        dims is part of it.
        """

    @abstractmethod
    def model_bytes(self, cut: Cut) -> int:
        """How many bytes of weights are needed to run `cut`."""

    @abstractmethod
    def _cut_to(self, cut: Cut) -> Self:
        """The encoder at `cut`, which fits `full` and is smaller."""

    @abstractmethod
    def _embed_windows(
        self, texts: Iterable[str], cuts: Sequence[Cut], prompt: str | None, advance: Callable[[int], None]
    ) -> Iterator[dict[Cut, Vectors]]:
        """The vectors of each window of `texts` at each of `cuts`."""

    @abstractmethod
    def save(self, folder: str | Path) -> None:
        """Write this encoder as a folder that `demitasse.load` opens."""

    def cut(self, layers: int | Cut | None = None, dims: int | None = None) -> Self:
        """An encoder of the first `layers` and `dims` (all of them if left out) that shares this one's weights.

        A `Cut` does for both: `encoder.cut(profile.best(budget).cut)`.
        """
        full = self.full
        if isinstance(layers, Cut):
            if dims is not None:
                raise CutError(f"cut was given {layers} and dims={dims!r}; give a Cut alone, or layers and dims")
            layers, dims = layers
        wanted = Cut(full.layers if layers is None else layers, full.dims if dims is None else dims).within(full)
        return self if wanted == full else self._cut_to(wanted)

    def encode(self, texts: Iterable[str], *, prompt: str | None = None, progress: bool | None = None) -> Vectors:
        """One unit-length float32 vector for each text, in order.

        `prompt` names one of the model's prompts ("query" and "document" work on every model; `None` is the model's
        default, `""` none). Texts longer than the model takes are truncated. A progress bar appears on a terminal when
        the work takes long (`progress=False` turns it off).
        """
        return self.encode_cuts(texts, [self.full], prompt=prompt, progress=progress)[self.full]

    def encode_iter(
        self, texts: Iterable[str], *, prompt: str | None = None, progress: bool | None = None
    ) -> Iterator[Vectors]:
        """The vectors of `encode` one by one, with a few thousand texts in memory at a time, never all of them."""
        with _progress(texts, progress) as advance:
            for vectors in self._embed_windows(texts, [self.full], prompt, advance):
                yield from vectors[self.full]

    def encode_cuts(
        self,
        texts: Iterable[str],
        cuts: Sequence[Cut],
        *,
        prompt: str | None = None,
        progress: bool | Callable[[int], None] | None = None,
    ) -> dict[Cut, Vectors]:
        """What `encode` gives at each of `cuts`, from one pass through the deepest of them.

        `progress` may also be a function: it is called with the number of texts done since the last call.
        """
        if not cuts:
            raise CutError("no cuts were given; name at least one, such as [Cut(6, 128)]")
        wanted = sorted({cut.within(self.full) for cut in cuts})
        parts: dict[Cut, list[Vectors]] = {cut: [] for cut in wanted}
        runner = self.cut(layers=wanted[-1].layers)
        with _progress(texts, progress) as advance:
            for vectors in runner._embed_windows(texts, wanted, prompt, advance):
                for cut, of_window in vectors.items():
                    parts[cut].append(of_window)
        return {cut: _joined(of_windows, cut.dims) for cut, of_windows in parts.items()}

    def __repr__(self) -> str:
        exits = f", exits at {_spans(self.exit_depths)}" if self.exit_depths else ""
        return f"Encoder({self.full}, {self.architecture}, {self.pooling}{exits}, {self.place})"


def _joined(parts: list[Vectors], dims: int) -> Vectors:
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty((0, dims), np.float32), *parts])


def _progress(
    texts: Iterable[str],
    show: bool | Callable[[int], None] | None,  # noqa: FBT001
) -> AbstractContextManager[Callable[[int], None]]:
    if callable(show):
        return nullcontext(show)
    return progress_bar("encoding", len(texts) if isinstance(texts, Sequence) else None, show=show)


def _spans(depths: Iterable[int]) -> str:
    """Numbers with runs of them joined.

    >>> _spans([0, 1, 2, 5])
    '0-2, 5'
    """
    spans: list[list[int]] = []
    for depth in sorted(depths):
        if spans and depth == spans[-1][1] + 1:
            spans[-1][1] = depth
        else:
            spans.append([depth, depth])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in spans)
