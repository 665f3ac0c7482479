"""`Encoder`: texts to unit-length float32 vectors, at any cut; what every kind of encoder has in common. No torch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, cast, overload

import numpy as np
import numpy.typing as npt

from demitasse.arguments import flag
from demitasse.cut import Cut, cuts_of
from demitasse.encoding.batching import pace, windows
from demitasse.encoding.exits import depth_spans
from demitasse.encoding.mixed_depths import MixedTexts
from demitasse.encoding.pooling import Pooling
from demitasse.encoding.reader import Reader
from demitasse.encoding.similarity import similarity, similarity_pairwise
from demitasse.encoding.spaces import Space
from demitasse.encoding.teacher_space import TeacherSpace
from demitasse.encoding.text_checks import checked, text_series
from demitasse.encoding.token_tally import OnLong, TokenTally
from demitasse.encoding.vectors import Vectors
from demitasse.errors import CutError, shown
from demitasse.extras import TENSORS, need
from demitasse.host.progress import Advance, ProgressOption, progress_over

if TYPE_CHECKING:
    from torch import Tensor


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
    folder: Path | None  # it was loaded from
    teacher_space: TeacherSpace | None  # that it shares with its teachers, if it was aligned with any

    @property
    @abstractmethod
    def full(self) -> Cut:
        """The largest cut this encoder gives, and the one `encode` uses."""

    @property
    @abstractmethod
    def architecture(self) -> str:
        """The class of the model, such as `BertModel`."""

    @property
    def max_seq_length(self) -> int:
        """How many tokens of a text are read, special tokens included; longer texts are truncated.

        It can be made smaller, not larger: `load(model, max_seq_length=128)`.
        """
        return self.reader.max_tokens

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

    @property
    @abstractmethod
    def space(self) -> Space:
        """What its vectors have in common with those of every cut of the same model: those can be compared."""

    @abstractmethod
    def model_bytes(self, cut: Cut) -> int:
        """How many bytes of weights are needed to run `cut`."""

    def _limited_to(self, max_seq_length: int) -> Self:
        """The same encoder, truncating texts at `max_seq_length` tokens."""
        encoder: Self = replace(cast(Any, self), reader=self.reader.limited(max_seq_length))
        return encoder

    @abstractmethod
    def _on_threads(self, count: int) -> Self:
        """The same encoder, computing on `count` threads; on torch that changes the whole process."""

    @abstractmethod
    def _cut_to(self, cut: Cut) -> Self:
        """The encoder at `cut`, which fits `full` and is smaller."""

    @abstractmethod
    def _embed_windows(
        self, parts: Iterable[list[str]], cuts: Sequence[Cut], prefix: str, tally: TokenTally, advance: Advance
    ) -> Iterator[dict[Cut, Vectors]]:
        """The vectors of each window of texts in `parts`, with `prefix` before each text, at each of `cuts`.

        The next window may be taken before the vectors of one are given, and is counted then.
        """

    @abstractmethod
    def _embed_mixed(self, texts: MixedTexts) -> Vectors:
        """The vector of each text at its own cut, in one batch; what is beyond its dims is 0."""

    @abstractmethod
    def save(self, folder: str | Path, *, force: bool = False) -> None:
        """Write this encoder as a folder that `demitasse.load` opens, completely or not at all.

        A folder that has files of yours in it, or that this encoder was loaded from, is refused; with `force` the
        model's files in it are replaced, and yours are kept.
        """

    def cut(self, layers: int | Cut | str | None = None, dims: int | None = None) -> Self:
        """An encoder of the first `layers` and `dims` (all of them if left out) that shares this one's weights.

        A `Cut` or its text does for both: `encoder.cut(profile.best(budget).cut)`, `encoder.cut("3x64")`.
        """
        full = self.full
        if isinstance(layers, (Cut, str, tuple, list)):
            layers = Cut.of(layers)
            if dims is not None:
                raise CutError(f"cut was given {layers} and dims={shown(dims)}; give a Cut alone, or layers and dims")
            layers, dims = layers
        wanted = Cut(full.layers if layers is None else layers, full.dims if dims is None else dims).within(full)
        return self if wanted == full else self._cut_to(wanted)

    @overload
    def encode(
        self,
        texts: Iterable[str],
        *,
        prompt_name: str | None = ...,
        prompt: str | None = ...,
        convert_to_tensor: Literal[False] = ...,
        on_long: OnLong = ...,
        progress: bool | None = ...,
    ) -> Vectors: ...

    @overload
    def encode(
        self,
        texts: Iterable[str],
        *,
        prompt_name: str | None = ...,
        prompt: str | None = ...,
        convert_to_tensor: Literal[True],
        on_long: OnLong = ...,
        progress: bool | None = ...,
    ) -> Tensor: ...

    def encode(
        self,
        texts: Iterable[str],
        *,
        prompt_name: str | None = None,
        prompt: str | None = None,
        convert_to_tensor: bool = False,
        on_long: OnLong = "cut",
        progress: bool | None = None,
    ) -> Vectors | Tensor:
        """One unit-length float32 vector for each text, in order.

        `texts` is any series of strings: a list, a generator, an array or a column of numpy, pandas, polars or Arrow.
        Of a table, the column `text` is read, or the only one.

        `prompt_name` names one of the model's prompts ("query" and "document" work on every model), `prompt` is itself
        the text to put before each text (`""` for none); without either, the model's default is used.

        Texts of more than `max_seq_length` tokens are truncated; `on_long="warn"` says how many were, and
        `on_long="error"` refuses them. `convert_to_tensor=True` gives a torch tensor on the CPU. A progress bar appears
        on a terminal when the work takes long (`progress=False` turns it off).

        >>> query = encoder.encode(["a small cup"], prompt_name="query")
        >>> documents = encoder.encode(["a ristretto", "a lungo"], prompt="passage: ")
        >>> encoder.similarity(query, documents).shape
        (1, 2)
        """
        prefix = self.reader.prefix(prompt_name, prompt)
        return self._encode(texts, prefix, on_long, progress=progress, convert_to_tensor=convert_to_tensor)

    @overload
    def encode_query(
        self,
        texts: Iterable[str],
        *,
        convert_to_tensor: Literal[False] = ...,
        on_long: OnLong = ...,
        progress: bool | None = ...,
    ) -> Vectors: ...

    @overload
    def encode_query(
        self,
        texts: Iterable[str],
        *,
        convert_to_tensor: Literal[True],
        on_long: OnLong = ...,
        progress: bool | None = ...,
    ) -> Tensor: ...

    def encode_query(
        self,
        texts: Iterable[str],
        *,
        convert_to_tensor: bool = False,
        on_long: OnLong = "cut",
        progress: bool | None = None,
    ) -> Vectors | Tensor:
        """What `encode` gives for queries, with the model's prompt for them if it has one."""
        prefix = self.reader.prefix("query")
        return self._encode(texts, prefix, on_long, progress=progress, convert_to_tensor=convert_to_tensor)

    @overload
    def encode_document(
        self,
        texts: Iterable[str],
        *,
        convert_to_tensor: Literal[False] = ...,
        on_long: OnLong = ...,
        progress: bool | None = ...,
    ) -> Vectors: ...

    @overload
    def encode_document(
        self,
        texts: Iterable[str],
        *,
        convert_to_tensor: Literal[True],
        on_long: OnLong = ...,
        progress: bool | None = ...,
    ) -> Tensor: ...

    def encode_document(
        self,
        texts: Iterable[str],
        *,
        convert_to_tensor: bool = False,
        on_long: OnLong = "cut",
        progress: bool | None = None,
    ) -> Vectors | Tensor:
        """What `encode` gives for documents, with the model's prompt for them if it has one."""
        prefix = self.reader.prefix("document")
        return self._encode(texts, prefix, on_long, progress=progress, convert_to_tensor=convert_to_tensor)

    def encode_iter(
        self,
        texts: Iterable[str],
        *,
        prompt_name: str | None = None,
        prompt: str | None = None,
        on_long: OnLong = "cut",
        tally: TokenTally | None = None,
        progress: bool | None = None,
    ) -> Iterator[Vectors]:
        """The vectors of `encode` one by one, with a few thousand texts in memory at a time, never all of them.

        `tally` counts the tokens that were read and the texts that were truncated, and has an `on_long` of its own.
        """
        prefix, counts = self.reader.prefix(prompt_name, prompt), TokenTally.of(tally, on_long)
        return self._one_by_one(text_series(texts), prefix, counts, progress=progress)

    def encode_cuts(
        self,
        texts: Iterable[str],
        cuts: Sequence[Cut | str],
        *,
        prompt_name: str | None = None,
        prompt: str | None = None,
        tally: TokenTally | None = None,
        progress: ProgressOption = None,
    ) -> dict[Cut, Vectors]:
        """What `encode` gives at each of `cuts`, from one pass through the deepest of them.

        `tally` counts the tokens that were read and the texts that were truncated. `progress` may also be a function:
        it is called with the number of texts done since the last call.
        """
        prefix = self.reader.prefix(prompt_name, prompt)
        return self._cuts(texts, cuts_of(cuts), prefix, TokenTally.of(tally), progress=progress)

    def count_tokens(
        self, texts: Iterable[str], *, prompt_name: str | None = None, prompt: str | None = None
    ) -> npt.NDArray[np.int64]:
        """How many tokens each text has with its prompt and special tokens, before it is truncated.

        >>> encoder.count_tokens(["a ristretto", "a lungo " * 40]).tolist(), encoder.max_seq_length
        ([4, 82], 32)
        """
        prefix = self.reader.prefix(prompt_name, prompt)
        counts = [self.reader.read(part, prefix).whole_lengths for part in self._windows(text_series(texts))]
        return np.concatenate([np.empty(0, np.int64), *counts])

    def similarity(self, first: npt.ArrayLike, second: npt.ArrayLike) -> Vectors:
        """The cosine of each vector of `first` with each of `second`: (first, second). One vector counts as one row.

        >>> cups, drinks = encoder.encode(["a small cup", "a mug"]), encoder.encode(["a ristretto"])
        >>> encoder.similarity(cups, drinks).shape
        (2, 1)
        """
        return similarity(first, second)

    def similarity_pairwise(self, first: npt.ArrayLike, second: npt.ArrayLike) -> Vectors:
        """The cosine of each vector of `first` with the one of `second` in the same place."""
        return similarity_pairwise(first, second)

    def _encode(
        self, texts: Iterable[str], prefix: str, on_long: OnLong, *, progress: bool | None, convert_to_tensor: bool
    ) -> Vectors | Tensor:
        if flag("convert_to_tensor", convert_to_tensor):
            need("convert_to_tensor=True", TENSORS)  # before the work
        tally = TokenTally(on_long)
        vectors = self._cuts(texts, [self.full], prefix, tally, progress=progress)[self.full]
        tally.warn(self.max_seq_length, stacklevel=4)
        if not convert_to_tensor:
            return vectors
        from demitasse.encoding.tensors import as_tensor

        return as_tensor(vectors)

    def _cuts(
        self, texts: Iterable[str], cuts: Sequence[Cut], prefix: str, tally: TokenTally, *, progress: ProgressOption
    ) -> dict[Cut, Vectors]:
        wanted = sorted({cut.within(self.full) for cut in cuts})
        parts: dict[Cut, list[Vectors]] = {cut: [] for cut in wanted}
        runner, column = self.cut(layers=wanted[-1].layers), text_series(texts)
        with progress_over("encoding", column, show=progress) as advance:
            for vectors in runner._embed_windows(self._windows(column), wanted, prefix, tally, advance):
                for cut, of_window in vectors.items():
                    parts[cut].append(of_window)
        return {cut: _joined(of_windows, cut.dims) for cut, of_windows in parts.items()}

    def _one_by_one(
        self, texts: Iterable[str], prefix: str, tally: TokenTally, *, progress: bool | None
    ) -> Iterator[Vectors]:
        with progress_over("encoding", texts, show=progress) as advance:
            for vectors in self._embed_windows(self._windows(texts), [self.full], prefix, tally, advance):
                yield from vectors[self.full]
        tally.warn(self.max_seq_length, stacklevel=3)

    def _windows(self, texts: Iterable[str]) -> Iterator[list[str]]:
        """`texts`, checked, as many at a time as its device is fed."""
        feed = pace(self.runtime, self.device_kind)
        return windows(checked(texts), feed.window, feed.characters, feed.first)

    def __copy__(self) -> Self:
        return self  # it never changes

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __repr__(self) -> str:
        exits = f", exits at {depth_spans(self.exit_depths)}" if self.exit_depths else ""
        return f"Encoder({self.full}, {self.architecture}, {self.pooling}{exits}, {self.place})"


def _joined(parts: list[Vectors], dims: int) -> Vectors:
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty((0, dims), np.float32), *parts])
