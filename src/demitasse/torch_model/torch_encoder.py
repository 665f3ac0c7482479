"""`TorchEncoder`: the encoder that runs on torch, and can be fitted, trained and exported."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from demitasse.arguments import flag, path
from demitasse.cut import Cut
from demitasse.encoding.batching import pace, token_batches
from demitasse.encoding.encoder import Encoder
from demitasse.encoding.exits import Exit, narrow
from demitasse.encoding.fingerprints import fingerprint, reading
from demitasse.encoding.finite import finite
from demitasse.encoding.mixed_depths import MixedTexts, fronts
from demitasse.encoding.packed_tokens import PackedTokens
from demitasse.encoding.pooling import Pooling
from demitasse.encoding.reader import Reader
from demitasse.encoding.spaces import Space, space_of
from demitasse.encoding.teacher_space import TeacherSpace
from demitasse.encoding.text_checks import checked, text_series
from demitasse.encoding.token_tally import TokenTally
from demitasse.encoding.vectors import Vectors
from demitasse.encoding.word_processes import helped
from demitasse.errors import FolderError
from demitasse.host.progress import Advance
from demitasse.torch_model.backbone import Backbone
from demitasse.torch_model.cuda_streams import Lanes, Launched, to_host
from demitasse.torch_model.device_tokens import DeviceTokens, to_device
from demitasse.torch_model.devices import short_name
from demitasse.torch_model.forks import mind_fork
from demitasse.torch_model.hf_weights import architecture_facts
from demitasse.torch_model.mixed_states import LayerAxes, layer_axes, mixed_states
from demitasse.torch_model.model_space import depth_fingerprints
from demitasse.torch_model.readout import Dense, Readout, embed, exit_readout, unit_length
from demitasse.torch_model.torch_pooling import pool, pool_over, without_prompt

WINDOWS_ALONE = 3  # windows of text that are tokenized before other processes are started to help
_PARTS = ("weight", "bias")
_WHOLE_AGAIN = "copy or save the model again, or train it again with lower rates"


@dataclass(frozen=True, eq=False, repr=False)
class TorchEncoder(Encoder):
    """An encoder on torch. `exits` are the fitted readouts by depth; other depths use `head`."""

    backbone: Backbone
    reader: Reader
    pooling: Pooling
    dims: int
    head: Readout = ()
    exits: Mapping[int, Exit] = field(default_factory=dict)
    record: Mapping[str, Any] = field(default_factory=dict)
    folder: Path | None = None
    teacher_space: TeacherSpace | None = None

    @property
    def full(self) -> Cut:
        """The largest cut this encoder gives, and the one `encode` uses."""
        return Cut(self.backbone.depth, self.dims)

    @property
    def architecture(self) -> str:
        """The class of the model, such as `BertModel`."""
        return self.backbone.name

    @property
    def exit_depths(self) -> list[int]:
        """The depths that have an exit of their own."""
        return sorted(self.exits)

    @property
    def runtime(self) -> str:
        """What runs the model."""
        return "torch"

    @property
    def device_kind(self) -> str:
        """The kind of device it runs on."""
        return self.device.type

    @property
    def place(self) -> str:
        """The device, and the number format where it is not float32."""
        dtype = self.backbone.model.dtype
        return str(self.device) + ("" if dtype is torch.float32 else f" {str(dtype).removeprefix('torch.')}")

    @property
    def precision(self) -> str:
        """The number format of the weights."""
        return short_name(self.backbone.model.dtype)

    @cached_property
    def fingerprint(self) -> str:
        """Names everything that makes the vectors."""
        steps = [getattr(step, "activation", "normalize") for step in self.head]
        facts = [self.precision, str(self.full), repr(self.pooling), steps, self._reading]
        return fingerprint([*facts, architecture_facts(self.backbone.model)], self._weights())

    @cached_property
    def space(self) -> Space:
        """What its vectors have in common with those of all cuts of this model."""
        named = self._head_weights()
        depths = depth_fingerprints(self.backbone, repr(self.pooling), self.head, named, self.exits)
        return space_of(depths, self._reading)

    @property
    def _reading(self) -> dict[str, Any]:
        source = self.reader.source
        backend = getattr(source, "backend_tokenizer", None)
        return reading(self.reader, json.dumps(source.get_vocab()) if backend is None else backend.to_str())

    def check_weights(self) -> None:
        """Refuse weights with NaN in them: all that is computed from them is, and seldom says why."""
        unsound = self._unsound_weight()
        if unsound is not None:
            raise FolderError(f"{self.name} has NaN or infinite numbers in {unsound}; {_WHOLE_AGAIN}")

    def _unsound_weight(self) -> str | None:
        """The name of a weight that has NaN or infinite numbers in it, if one does."""
        named = [*self.backbone.model.named_parameters(), *self._head_weights()]
        for depth, exit_ in self.exits.items():
            named += [(f"the exit at depth {depth}", torch.from_numpy(part)) for part in (exit_.weight, exit_.bias)]
        for name, tensor in named:
            if tensor.is_floating_point() and tensor.numel():
                ends = torch.stack(torch.aminmax(tensor.detach()))  # one pass, without a copy; NaN wins
                if not bool(torch.isfinite(ends).all()):
                    return name
        return None

    def _head_weights(self) -> list[tuple[str, Tensor]]:
        parts = [(index, part, getattr(step, part, None)) for index, step in enumerate(self.head) for part in _PARTS]
        return [(f"head {index} {part}", tensor) for index, part, tensor in parts if tensor is not None]

    def _why_not_finite(self) -> tuple[str, str]:
        unsound = self._unsound_weight()
        if unsound is not None:
            cause = f"since {unsound} has NaN or infinite numbers; {_WHOLE_AGAIN}"
        elif self.precision in ("fp16", "bf16"):
            cause = "where a state is too large for that number format; choose another precision, or fewer layers"
        else:
            cause = f"since its weights are too large; {_WHOLE_AGAIN}"
        return f"{self.name} in {self.precision}", cause

    def _weights(self) -> Iterator[tuple[str, Any]]:
        """Every weight by name, one at a time: a large model is never in memory twice."""
        named = [*sorted(self.backbone.model.state_dict().items()), *self._head_weights()]
        yield from ((name, tensor.detach().float().cpu().numpy()) for name, tensor in named)
        for depth, exit_ in sorted(self.exits.items()):
            yield from ((f"exit {depth}", exit_.weight), (f"exit {depth} bias", exit_.bias))

    @property
    def state_dims(self) -> int:
        """The width of a pooled state."""
        return self.backbone.width * len(self.pooling.modes)

    @property
    def device(self) -> torch.device:
        """Where the model runs."""
        return self.backbone.model.device

    def states(
        self, texts: Iterable[str], depths: Sequence[int], *, prompt_name: str | None = None, prompt: str | None = None
    ) -> dict[int, Tensor]:
        """The pooled state (B, S) of each text at each of `depths`, in order and in fp32."""
        runner, prefix = self.cut(layers=max(depths)), self.reader.prefix(prompt_name, prompt)
        return runner._window_states(list(checked(text_series(texts))), depths, prefix)

    def save(self, folder: str | Path, *, force: bool = False) -> None:
        """Write this encoder as a folder that `demitasse.load` and plain sentence-transformers open."""
        from demitasse.torch_model.model_folder import save

        save(self, path("folder", folder), force=flag("force", force))

    def model_bytes(self, cut: Cut) -> int:
        """How many bytes of weights the model saved at `cut` has, with its readout."""
        cut = Cut.of(cut).within(self.full)
        count = self.backbone.parameters_at(cut.layers)
        readout = [step for step in self.readout(cut.layers) if isinstance(step, Dense)]
        for step in readout:
            outputs = min(cut.dims, len(step.weight)) if step is readout[-1] else len(step.weight)
            count += outputs * (step.weight.shape[1] + (step.bias is not None))
        return count * self.backbone.model.dtype.itemsize

    def readout(self, depth: int) -> Readout:
        """The steps from a state at `depth` to the embedding."""
        return self._exit_readouts.get(depth, self.head)

    def __getstate__(self) -> dict[str, Any]:
        """Pickled with its weights, since one that was trained has no folder, but without what belongs to a process."""
        return {own.name: getattr(self, own.name) for own in fields(self)}

    def _on_threads(self, count: int) -> TorchEncoder:
        """The same encoder, with torch computing on `count` threads in the whole process."""
        torch.set_num_threads(count)
        return self

    def _cut_to(self, cut: Cut) -> TorchEncoder:
        backbone = self.backbone if cut.layers == self.full.layers else self.backbone.truncated(cut.layers)
        exits = narrow(self.exits.items(), cut.layers, cut.dims)
        space = None if self.teacher_space is None else self.teacher_space.first(cut.dims)
        return replace(self, backbone=backbone, dims=cut.dims, exits=exits, teacher_space=space)

    @cached_property
    def _exit_readouts(self) -> dict[int, Readout]:
        return {depth: exit_readout(exit_, self.device) for depth, exit_ in self.exits.items()}

    def _embed_windows(
        self, parts: Iterable[list[str]], cuts: Sequence[Cut], prefix: str, tally: TokenTally, advance: Advance
    ) -> Iterator[dict[Cut, Vectors]]:
        """The vectors of each window of texts at each of `cuts`.

        A GPU computes one window while the next is tokenized and the one before is copied back.
        """
        depths = sorted({cut.layers for cut in cuts})
        ahead = 1 if self.device.type == "cuda" else 0
        launched: deque[Launched] = deque()
        for packed in self._token_windows(parts, prefix, ahead):
            tally.add(packed, self.max_seq_length)
            states = self._launch(packed, depths, prefix, advance)
            with torch.inference_mode():
                embedded = {depth: embed(self.readout(depth), states[depth]) for depth in depths}
                vectors = {cut: to_host(unit_length(embedded[cut.layers][:, : cut.dims])) for cut in cuts}
            launched.append(Launched(vectors, self.device))
            if len(launched) > ahead:
                # Outside the block, whose mode the caller would otherwise be in.
                yield finite(launched.popleft().fetched(), self._why_not_finite)
        while launched:
            yield finite(launched.popleft().fetched(), self._why_not_finite)

    def _token_windows(self, parts: Iterable[list[str]], prefix: str, ahead: int) -> Iterator[PackedTokens]:
        """The token ids of each window of texts, made in another thread `ahead` windows in advance."""
        if not ahead:
            yield from (self.reader.read(part, prefix) for part in parts)
            return
        with ThreadPoolExecutor(1, "demitasse-tokens") as thread:
            pending: deque[Future[PackedTokens]] = deque()
            reader = self.__dict__.get("_busy_reader", self.reader)
            for count, part in enumerate(parts):
                if count == WINDOWS_ALONE:  # much text: worth starting other processes
                    reader = self._busy_reader
                pending.append(thread.submit(reader.read, part, prefix))
                if len(pending) > ahead:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()

    @cached_property
    def _busy_reader(self) -> Reader:
        """The reader, with other processes doing the tokenizing where there are cores to spare."""
        return helped(self.reader)

    def _window_states(self, window: Sequence[str], depths: Sequence[int], prefix: str) -> dict[int, Tensor]:
        """The states of `window`, in its order."""
        return self._launch(self.reader.read(window, prefix), depths, prefix, lambda steps: None)

    def _check_ids(self, packed: PackedTokens) -> None:
        """Refuse token ids without an embedding, which a GPU would not survive."""
        largest = max(int(packed.ids.max(initial=0)), self.reader.pad_id)
        embedded = len(self.backbone.model.get_input_embeddings().weight)  # type: ignore[arg-type]
        if largest >= embedded:
            raise FolderError(
                f"the tokenizer of {self.name} gives the token {largest}, and the model has embeddings of {embedded}; "
                "copy the tokenizer that belongs to it"
            )

    def _launch(self, packed: PackedTokens, depths: Sequence[int], prefix: str, advance: Advance) -> dict[int, Tensor]:
        """The states of texts in order, computed in batches of similar length; a GPU may still be computing them."""
        mind_fork(self.device)
        prompt_tokens = 0 if self.pooling.include_prompt else self.reader.prompt_tokens(prefix)
        self._check_ids(packed)
        feed = pace(self.runtime, self.device_kind)
        batches = token_batches(packed.lengths.tolist(), feed.budget, feed.least)
        on_device = DeviceTokens(packed, batches, self.device)
        parts: dict[int, list[Tensor]] = {
            depth: [torch.empty(0, self.state_dims, device=self.device)] for depth in depths
        }
        lanes = Lanes(self.device)
        with torch.inference_mode():
            for number in range(len(on_device)):
                with lanes.next():
                    ids, mask, padded = on_device.batch(number, self.reader.pad_id)
                    # Where nothing is padded, attention without a mask is faster.
                    inputs = {"input_ids": ids, "attention_mask": mask} if padded else {"input_ids": ids}
                    pooled = partial(pool, self.pooling, mask=mask, prompt_tokens=prompt_tokens)
                    for depth, state in self.backbone.states(inputs, depths, pooled).items():
                        parts[depth].append(state.float())
                advance(len(ids))
            lanes.join(parts)
            joined = {depth: torch.cat(states) for depth, states in parts.items()}
        positions = on_device.order.argsort()
        return {depth: states[positions] for depth, states in joined.items()}

    def _embed_mixed(self, texts: MixedTexts) -> Vectors:
        mind_fork(self.device)
        self._check_ids(texts.packed)
        order, widest = texts.order, max(cut.dims for cut in texts.cuts)
        passes = [order]
        if self._layer_axes is None:  # texts of different depths cannot share a pass
            depths = np.array([texts.cuts[index].layers for index in order])
            passes = [order[depths == depth] for depth in np.unique(depths)]
        vectors = np.empty((len(order), widest), np.float32)
        with torch.inference_mode():
            # All passes are launched before the first is waited for.
            launched = [self._embed_together(texts, chosen, widest) for chosen in passes]
            for chosen, embedded in zip(passes, launched, strict=True):
                vectors[chosen] = embedded.cpu().numpy()
        deepest = max(texts.cuts)
        return finite({deepest: vectors}, self._why_not_finite)[deepest]

    @cached_property
    def _layer_axes(self) -> LayerAxes | None:
        return layer_axes(self.backbone)

    def _embed_together(self, texts: MixedTexts, chosen: npt.NDArray[np.int64], widest: int) -> Tensor:
        """The vectors of the `chosen` texts, deepest first, from one pass; 0 beyond their dims."""
        cuts, lengths = [texts.cuts[index] for index in chosen], texts.packed.lengths[chosen]
        batch = self.reader.padded(texts.packed, chosen)  # type: ignore[arg-type]
        ids, mask = (to_device(part, self.device) for part in batch)
        kept = mask
        if texts.prompt_tokens.any():
            kept = without_prompt(mask, to_device(texts.prompt_tokens[chosen][:, None], self.device))

        def pooled(hidden: Tensor, rows: slice) -> Tensor:
            tokens = hidden.shape[1]
            return pool_over(self.pooling, hidden, kept[rows, :tokens], mask[rows, :tokens])

        padded = bool((lengths < batch.ids.shape[1]).any())
        inputs = {"input_ids": ids, "attention_mask": mask} if padded else {"input_ids": ids}
        drawn = fronts([cut.layers for cut in cuts], lengths)
        states = mixed_states(self.backbone, self._layer_axes or (), inputs, drawn, pooled)
        embedded = torch.cat([embed(self.readout(depth), states[depth])[:, :widest] for depth in sorted(states)[::-1]])
        dims = to_device(np.array([cut.dims for cut in cuts]), self.device)
        beyond = torch.arange(widest, device=self.device) >= dims[:, None]
        return unit_length(embedded.masked_fill(beyond, 0))
