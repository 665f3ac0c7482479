"""The model while it is trained: a copy of an encoder's backbone and read-outs, as one torch module."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from demitasse.encoding.batching import token_batches
from demitasse.encoding.exits import Exit
from demitasse.encoding.packed_tokens import PackedTokens
from demitasse.torch_model.backbone import Backbone
from demitasse.torch_model.device_tokens import ChosenTexts, DeviceTokens
from demitasse.torch_model.one_line import HALF, Line, agrees, first_positions, in_line
from demitasse.torch_model.readout import Dense, Normalize, Readout
from demitasse.torch_model.torch_encoder import TorchEncoder
from demitasse.torch_model.torch_pooling import pool_over, token_weights, without_prompt

# A forward pass with this many tokens is worth closing: starting another beats padding shorter texts to its length.
LEAST_TOKENS = {"cuda": 16384}
LEAST_TOKENS_ELSEWHERE = 512
TRIED_TEXTS = 16  # on which a pass without padding is compared with one that has it


class Student(nn.Module):
    """Token ids in, the embedding of every text at each of `depths` out, with gradients.

    The encoder it is made from stays as it is. Weights are fp32, whatever the encoder's are. With `raw`, embeddings are
    taken before the model's own last normalisation, which would lose their scale.

    `one_line` says whether texts run without padding (torch_model/one_line.py): by default on a GPU in half precision
    without dropout, if the model gives the same states that way, which is tried with its first texts.
    """

    def __init__(
        self,
        encoder: TorchEncoder,
        *,
        last_only: bool = False,
        raw: bool = False,
        recompute: bool = False,
        one_line: bool | None = None,
    ) -> None:
        super().__init__()
        self._origin = encoder
        model: Any = copy.deepcopy(encoder.backbone.model)
        self.model = model.float()
        self.backbone: Backbone = replace(encoder.backbone, model=self.model)
        layers = encoder.full.layers
        self.depths = [layers] if last_only else list(range(layers + 1))
        self.exits = nn.ModuleDict({str(depth): _Steps(encoder.readout(depth)) for depth in encoder.exits})
        self.head = _Steps(encoder.head, raw=raw)
        self._recompute, self._one_line = recompute, one_line
        self._tried: bool | None = None  # whether the model can run in one line, once it was tried
        self._first = 0  # the position of the first token there

    @property
    def device(self) -> torch.device:
        """Where it is."""
        device: torch.device = self.model.device
        return device

    def forward(self, rows: PackedTokens | ChosenTexts, prompt_tokens: Tensor | None = None) -> Tensor:
        """The embeddings (depths, texts, dims) in fp32, not of unit length.

        `prompt_tokens` says for each text how many of its first tokens to leave out of pooling.
        """
        texts = rows if isinstance(rows, ChosenTexts) else ChosenTexts.of(rows, self.device)
        run = self._in_one_line if self._runs_in_one_line(texts) else self._padded
        pooled = run(texts, prompt_tokens)
        with torch.autocast(self.device.type, enabled=False):
            return self._embedded(pooled.float())

    def _in_one_line(self, texts: ChosenTexts, prompt_tokens: Tensor | None) -> Tensor:
        """The pooled states (depths, texts, dims) from one pass without padding."""
        return self._over(Line.of(texts, self._first), prompt_tokens)

    def _over(self, line: Line, prompt_tokens: Tensor | None) -> Tensor:
        weights = line.weights(self._origin.pooling, prompt_tokens)
        assert weights is not None
        with in_line(self.model, line):
            states = self.backbone.states(line.inputs, self.depths, partial(line.summed, weights=weights))
        return torch.stack([states[depth] for depth in self.depths])

    def _runs_in_one_line(self, texts: ChosenTexts) -> bool:
        """Whether to run without padding; the first time, a few of `texts` are run both ways."""
        device, wanted = self.device.type, self._one_line
        if wanted is None:
            half = torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) in HALF
            wanted = device == "cuda" and half and not self.training and not self._recompute
        if not wanted:
            return False
        if self._tried is None:
            firsts = first_positions(self.model)
            self._first = next((first for first in firsts if self._same_in_one_line(texts, first)), -1)
            self._tried = self._first >= 0
        return self._tried

    def _same_in_one_line(self, texts: ChosenTexts, first: int) -> bool:
        few = replace(
            texts,
            starts=texts.starts[:TRIED_TEXTS],
            lengths=texts.lengths[:TRIED_TEXTS],
            known_lengths=texts.known_lengths[:TRIED_TEXTS],
        )
        line = Line.of(few, first)
        if line.weights(self._origin.pooling, None) is None:
            return False
        try:
            with torch.enable_grad():  # a kernel that is missing may show only in the backward pass
                states = self._over(line, None)
                trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
                # Kept, since the pass that follows may share weights cast to half precision with this one.
                torch.autograd.grad(states.sum(), trained, allow_unused=True, retain_graph=True)
        except Exception:  # whatever it raises, this model, torch or GPU cannot
            return False
        with torch.no_grad():
            padded = self._padded(few, None)
        # A layer that attends in a way of its own did not keep the texts apart.
        return len(line.attended) == self.backbone.depth and agrees(states, padded)

    def _padded(self, texts: ChosenTexts, prompt_tokens: Tensor | None) -> Tensor:
        """The pooled states (depths, texts, dims) from passes over texts of similar length, padded to the longest."""
        least = LEAST_TOKENS.get(self.device.type, LEAST_TOKENS_ELSEWHERE)
        batches = token_batches(texts.known_lengths.tolist(), 1 << 40, least)
        packed = DeviceTokens(texts, batches, self.device)
        # On a GPU: fewer shapes, and those its kernels like; never more tokens than the model has positions.
        multiple = 8 if self.device.type == "cuda" and self._origin.reader.max_tokens % 8 == 0 else 1
        parts = []
        begin = 0
        for number in range(len(packed)):
            ids, mask, padded = packed.batch(number, self._origin.reader.pad_id, multiple)
            kept = mask
            if prompt_tokens is not None:
                own = prompt_tokens.to(self.device)[packed.order[begin : begin + len(ids)]]
                kept = without_prompt(mask, own.unsqueeze(-1))
            begin += len(ids)
            weights = token_weights(self._origin.pooling, kept, mask)
            # One product per depth where that is enough: a step waits for the host more than for the GPU.
            over = partial(pool_over, self._origin.pooling, kept=kept, mask=mask)
            pool = over if weights is None else partial(_summed, weights.unsqueeze(1))
            inputs = {"input_ids": ids, "attention_mask": mask} if padded else {"input_ids": ids}
            with _recomputed(self.backbone.layers) if self._recompute else nullcontext():
                states = self.backbone.states(inputs, self.depths, pool)
            parts.append(torch.stack([states[depth] for depth in self.depths]))
        return torch.cat(parts, dim=1)[:, packed.order.argsort()]

    def _embedded(self, pooled: Tensor) -> Tensor:
        """The embeddings of pooled states (K, M, S): all exits in one product, depths without one through the head."""
        dims = self._origin.dims  # fewer than the head's if the encoder was cut
        own = [index for index, depth in enumerate(self.depths) if str(depth) in self.exits]
        rest = [index for index in range(len(self.depths)) if index not in own]
        if not own:
            return torch.stack([self.head(states)[:, :dims] for states in pooled])
        steps = [self.readout(self.depths[index]) for index in own]
        weight = torch.stack([step.weights[0] for step in steps])  # (K, D, S)
        bias = torch.stack([step.biases[0] for step in steps]).unsqueeze(1)
        states = pooled if not rest else pooled[own]  # a list of indices would keep the GPU waiting
        mapped = torch.baddbmm(bias, functional.normalize(states, dim=-1), weight.mT)
        if not rest:
            return mapped
        others = [self.head(pooled[index])[:, :dims].unsqueeze(0) for index in rest]
        return torch.cat([mapped, *others])[[(own + rest).index(index) for index in range(len(self.depths))]]

    def readout(self, depth: int) -> _Steps:
        """The steps from a state at `depth` to the embedding."""
        steps = self.exits[str(depth)] if str(depth) in self.exits else self.head  # noqa: SIM401 - it has no get
        assert isinstance(steps, _Steps)
        return steps

    def encoder(self) -> TorchEncoder:
        """An encoder that shares these weights: good for scoring in between, not for keeping."""
        exits = {int(depth): steps.exit() for depth, steps in self.exits.items() if isinstance(steps, _Steps)}
        return replace(self._origin, backbone=self.backbone, head=self.head.readout(), exits=exits)

    def groups(
        self, rate: float, embedding_rate: float, exit_rate: float, decay: float, matrix_rate: float | None = None
    ) -> list[dict[str, Any]]:
        """The parameters to train, by learning rate and weight decay (none for biases and norms).

        `inner` marks the matrices of the layers, which Muon takes, at `matrix_rate` if they have one of their own.
        """
        own = [parameter for parameter in self.exits.parameters() if parameter.requires_grad]
        rest = [p for p in [*self.model.parameters(), *self.head.parameters()] if p.requires_grad]
        matrices = {id(parameter) for parameter in self.backbone.layers.parameters() if parameter.ndim == 2}
        flat = [p for p in rest if p.ndim < 2]
        inner = [p for p in rest if id(p) in matrices]
        outer = [p for p in rest if p.ndim >= 2 and id(p) not in matrices]
        groups = [
            (inner, matrix_rate or rate, decay),
            (outer, embedding_rate, decay),
            (flat, rate, 0.0),
            (own, exit_rate, 0.0),
        ]
        return [
            {"params": parameters, "lr": lr, "base": lr, "weight_decay": weight_decay, "inner": parameters is inner}
            for parameters, lr, weight_decay in groups
            if parameters
        ]


def _summed(weights: Tensor, hidden: Tensor) -> Tensor:
    """Token states (B, T, D) summed with `weights` (B, 1, T), in fp32."""
    with torch.autocast(hidden.device.type, enabled=False):
        return torch.bmm(weights, hidden.float()).squeeze(1)


class _Steps(nn.Module):
    """A read-out whose linear maps are trained."""

    def __init__(self, readout: Readout, *, raw: bool = False) -> None:
        super().__init__()
        self._readout, self._raw = readout, raw
        dense = [step for step in readout if isinstance(step, Dense)]
        self.weights = nn.ParameterList([step.weight.detach().clone().float() for step in dense])
        self.biases = nn.ParameterList([s.bias.detach().clone().float() for s in dense if s.bias is not None])

    def forward(self, states: Tensor) -> Tensor:
        """The embeddings of `states`."""
        vectors = states
        for index, step in enumerate(self._current()):
            if self._raw and index == len(self._readout) - 1 and isinstance(step, Normalize):
                break
            vectors = step(vectors) if isinstance(step, Dense) else functional.normalize(vectors, dim=-1)
        return vectors

    def _current(self) -> Iterator[Any]:
        weights, biases = iter(self.weights), iter(self.biases)
        for step in self._readout:
            if isinstance(step, Dense):
                step = replace(step, weight=next(weights), bias=None if step.bias is None else next(biases))
            yield step

    def readout(self) -> Readout:
        """The read-out as it is now."""
        return tuple(
            replace(step, weight=step.weight.detach(), bias=None if step.bias is None else step.bias.detach())
            if isinstance(step, Dense)
            else step
            for step in self._current()
        )

    def exit(self) -> Exit:
        """The same, as an exit again."""
        (weight,), (bias,) = self.weights, self.biases
        return Exit(*(tensor.detach().float().cpu().numpy().copy() for tensor in (weight, bias)))


@contextmanager
def _recomputed(layers: nn.ModuleList) -> Iterator[None]:
    """`layers` keep only their input and run again in the backward pass.

    Not transformers' own checkpointing, which would run the hooks that read the states a second time.
    """
    for layer in layers:
        layer.forward = partial(checkpoint, layer.forward, use_reentrant=False)
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward
