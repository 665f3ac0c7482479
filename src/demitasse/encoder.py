"""`Encoder`: texts to unit-length float32 rows, at any cut."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from demitasse.backbone import Backbone
from demitasse.batching import token_batches, windows
from demitasse.cut import Cut
from demitasse.devices import token_budget
from demitasse.errors import CutError
from demitasse.exits import Exit, narrow
from demitasse.pooling import Pooling
from demitasse.progress import progress_bar
from demitasse.readout import Readout, embed, exit_readout, unit
from demitasse.texts import checked
from demitasse.tokens import Reader

Vectors = npt.NDArray[np.float32]

# Texts held at a time: enough to fill batches with texts of like length, few enough to be nothing in memory.
WINDOW = 4096


@dataclass(frozen=True, eq=False)
class Encoder:
    """A sentence-embedding model that can be cut to fewer layers and dims.

    Made by `demitasse.load`; nothing changes it. `exits` are the read-outs that have been fitted, by depth; the other
    depths use `head`, the model's own.

    >>> encoder
    Encoder(3x32, BertModel, mean, cpu)
    >>> small = encoder.cut(layers=2, dims=8)
    >>> small.encode(["a ristretto", "a lungo"]).shape
    (2, 8)
    """

    backbone: Backbone
    reader: Reader
    pooling: Pooling
    dims: int
    head: Readout = ()
    exits: Mapping[int, Exit] = field(default_factory=dict)
    record: Mapping[str, Any] = field(default_factory=dict)  # where it comes from, what was fitted or trained

    @property
    def full(self) -> Cut:
        """The largest cut this encoder gives, and the one `encode` uses."""
        return Cut(self.backbone.depth, self.dims)

    @property
    def state_dims(self) -> int:
        """The width of a pooled state."""
        return self.backbone.width * len(self.pooling.modes)

    @property
    def device(self) -> torch.device:
        """Where the model runs."""
        return self.backbone.model.device

    def cut(self, layers: int | None = None, dims: int | None = None) -> Encoder:
        """An encoder of the first `layers` and `dims` (all of them if left out) that shares this one's weights."""
        full = self.full
        wanted = Cut(full.layers if layers is None else layers, full.dims if dims is None else dims).within(full)
        if wanted == full:
            return self
        backbone = self.backbone if wanted.layers == full.layers else self.backbone.truncated(wanted.layers)
        exits = narrow(self.exits.items(), wanted.layers, wanted.dims)
        return replace(self, backbone=backbone, dims=wanted.dims, exits=exits)

    def encode(self, texts: Iterable[str], *, prompt: str | None = None, progress: bool | None = None) -> Vectors:
        """One unit-length float32 row for each text, in order.

        `prompt` names one of the model's prompts ("query" and "document" work on every model; `None` is the model's
        default, `""` none). Texts longer than the model takes are cut off; a progress bar appears on a terminal when
        the work is long (`progress=False` keeps it away).
        """
        return self.encode_cuts(texts, [self.full], prompt=prompt, progress=progress)[self.full]

    def encode_iter(
        self, texts: Iterable[str], *, prompt: str | None = None, progress: bool | None = None
    ) -> Iterator[Vectors]:
        """The rows of `encode` one after the other; holds some thousands of texts at a time, never all of them."""
        with self._progress(texts, progress) as advance:
            for vectors in self._embed_windows(texts, [self.full], prompt, advance):
                yield from vectors[self.full]

    def encode_cuts(
        self,
        texts: Iterable[str],
        cuts: Sequence[Cut],
        *,
        prompt: str | None = None,
        progress: bool | None = None,
    ) -> dict[Cut, Vectors]:
        """What `encode` gives at each of `cuts`, from one pass through the deepest of them."""
        if not cuts:
            raise CutError("no cuts were given; name at least one, such as [Cut(6, 128)]")
        wanted = sorted({cut.within(self.full) for cut in cuts})
        parts: dict[Cut, list[Vectors]] = {cut: [] for cut in wanted}
        runner = self.cut(layers=wanted[-1].layers)
        with self._progress(texts, progress) as advance:
            for vectors in runner._embed_windows(texts, wanted, prompt, advance):
                for cut, rows in vectors.items():
                    parts[cut].append(rows)
        return {cut: np.concatenate([np.empty((0, cut.dims), np.float32), *parts[cut]]) for cut in wanted}

    def states(self, texts: Sequence[str], depths: Sequence[int], *, prompt: str | None = None) -> dict[int, Tensor]:
        """The pooled state (B, S) of each text at each of `depths`, in order and in fp32."""
        runner, prefix = self.cut(layers=max(depths)), self.reader.prompt(prompt)
        return runner._window_states(list(checked(texts)), depths, prefix, lambda steps: None)

    def save(self, folder: str | Path) -> None:
        """Write this encoder as a folder that `demitasse.load` and plain sentence-transformers open."""
        from demitasse.folder import save

        save(self, folder)

    def readout(self, depth: int) -> Readout:
        """The steps from a state at `depth` to the embedding."""
        return self._exit_readouts.get(depth, self.head)

    def __repr__(self) -> str:
        exits = f", exits at {_spans(self.exits)}" if self.exits else ""
        return f"Encoder({self.full}, {self.backbone.name}, {self.pooling}{exits}, {self.device})"

    @cached_property
    def _exit_readouts(self) -> dict[int, Readout]:
        return {depth: exit_readout(exit_, self.device) for depth, exit_ in self.exits.items()}

    def _embed_windows(
        self, texts: Iterable[str], cuts: Sequence[Cut], prompt: str | None, advance: Callable[[int], None]
    ) -> Iterator[dict[Cut, Vectors]]:
        """The rows of each window of `texts` at each of `cuts`."""
        prefix = self.reader.prompt(prompt)
        depths = sorted({cut.layers for cut in cuts})
        for window in windows(checked(texts), WINDOW):
            states = self._window_states(window, depths, prefix, advance)
            with torch.inference_mode():
                rows = {depth: embed(self.readout(depth), states[depth]) for depth in depths}
                vectors = {cut: unit(rows[cut.layers], cut.dims).cpu().numpy() for cut in cuts}
            yield vectors  # outside the block: a generator would leave its caller in inference mode

    def _window_states(
        self, window: Sequence[str], depths: Sequence[int], prefix: str, advance: Callable[[int], None]
    ) -> dict[int, Tensor]:
        rows = self.reader.token_ids(window, prefix)
        prompt_tokens = 0 if self.pooling.include_prompt else self.reader.prompt_tokens(prefix)
        states = {depth: torch.empty(len(rows), self.state_dims, device=self.device) for depth in depths}
        for batch in token_batches([len(row) for row in rows], token_budget(self.device)):
            inputs = self.reader.padded([rows[index] for index in batch], self.device)
            pool = partial(self.pooling, mask=inputs["attention_mask"], prompt_tokens=prompt_tokens)
            with torch.inference_mode():
                pooled = self.backbone.states(inputs, depths, pool)
                for depth, state in pooled.items():
                    states[depth][batch] = state.float()
            advance(len(batch))
        return states

    def _progress(
        self,
        texts: Iterable[str],
        show: bool | None,  # noqa: FBT001
    ) -> AbstractContextManager[Callable[[int], None]]:
        return progress_bar("encoding", len(texts) if isinstance(texts, Sequence) else None, show=show)


def _spans(depths: Iterable[int]) -> str:
    """Whole numbers, runs joined.

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
