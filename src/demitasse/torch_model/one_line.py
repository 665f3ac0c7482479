"""Texts of any length in one pass without padding: their tokens one after another in one line.

Each text attends to itself only, which a kernel of torch does for texts of any length (`varlen_attn`), and positions
start again with each. transformers calls attention by name, so any model whose attention is registered there can run
this way. Whether one can is tried with the model at hand, instead of looked up in a table of models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from demitasse.encoding.pooling import Pooling
from demitasse.torch_model.device_tokens import ChosenTexts

ATTENTION = "demitasse_one_line"
HALF = (torch.bfloat16, torch.float16)  # what the kernel computes in


@dataclass(frozen=True, eq=False)
class Line:
    """The tokens (N,) of M texts, one text after another."""

    ids: Tensor
    positions: Tensor  # of each token in its text
    owner: Tensor  # the text of each token
    bounds: Tensor  # (M + 1,) where each text begins, and the end; int32, as the kernel wants them
    longest: int
    first: int = 0  # what the model calls the position of the first token
    attended: list[str] = field(default_factory=list)  # the attention modules that kept its texts apart

    @classmethod
    def of(cls, texts: ChosenTexts, first: int = 0) -> Line:
        """`texts` in a line, made on their device; nothing waits for it."""
        count, total = len(texts), int(texts.known_lengths.sum())
        ends = texts.lengths.cumsum(0)
        begins = ends - texts.lengths
        owner = torch.repeat_interleave(torch.arange(count, device=texts.device), texts.lengths, output_size=total)
        positions = torch.arange(total, device=texts.device) - begins[owner]
        ids = texts.ids[texts.starts[owner] + positions].long()
        bounds = functional.pad(ends, (1, 0)).int()
        return cls(ids, positions, owner, bounds, int(texts.known_lengths.max()), first)

    def __len__(self) -> int:
        """How many texts there are."""
        return len(self.bounds) - 1

    @property
    def inputs(self) -> dict[str, Tensor]:
        """What the model is given."""
        positions = self.positions + self.first if self.first else self.positions
        return {"input_ids": self.ids.unsqueeze(0), "position_ids": positions.unsqueeze(0)}

    def weights(self, pooling: Pooling, prompt_tokens: Tensor | None) -> Tensor | None:
        """What each token (N,) weighs in the state of its text; `None` where pooling is no weighted sum.

        `prompt_tokens` (M,) says how many of the first tokens of each text to leave out.
        """
        mode = pooling.modes[0]
        if len(pooling.modes) > 1 or mode not in _TOKEN_WEIGHTS:
            return None
        lengths = self.bounds.diff().long()
        skipped = torch.zeros_like(lengths) if prompt_tokens is None else prompt_tokens.to(lengths.device)
        skipped = skipped.where(skipped < lengths, 0)  # a text that is all prompt keeps its own
        ranks = self.positions - skipped[self.owner]
        return _TOKEN_WEIGHTS[mode](self, ranks, lengths - skipped)

    def summed(self, hidden: Tensor, weights: Tensor) -> Tensor:
        """The states (M, D) of token states (1, N, D), summed with `weights` (N,) in fp32."""
        with torch.autocast(hidden.device.type, enabled=False):
            weighted = hidden[0].float() * weights.unsqueeze(-1)
            return weighted.new_zeros(len(self), weighted.shape[-1]).index_add(0, self.owner, weighted)


def _mean(line: Line, ranks: Tensor, counts: Tensor) -> Tensor:
    return (ranks >= 0) / counts[line.owner]


def _mean_sqrt(line: Line, ranks: Tensor, counts: Tensor) -> Tensor:
    return (ranks >= 0) / counts[line.owner].sqrt()


def _weighted(line: Line, ranks: Tensor, counts: Tensor) -> Tensor:
    # The n-th token of a text, prompt included, weighs n.
    raw = (ranks >= 0) * (line.positions + 1).float()
    sums = raw.new_zeros(len(line)).index_add(0, line.owner, raw)
    return raw / sums[line.owner]


def _first(line: Line, ranks: Tensor, counts: Tensor) -> Tensor:
    return (ranks == 0).float()


def _last(line: Line, ranks: Tensor, counts: Tensor) -> Tensor:
    return (ranks == counts[line.owner] - 1).float()


_TOKEN_WEIGHTS: dict[str, Callable[[Line, Tensor, Tensor], Tensor]] = {
    "mean": _mean,
    "mean_sqrt_len": _mean_sqrt,
    "weightedmean": _weighted,
    "cls": _first,
    "last": _last,
}
_current: ContextVar[Line | None] = ContextVar("demitasse_line", default=None)


@contextmanager
def in_line(model: Any, line: Line) -> Iterator[None]:
    """Inside the block, the attention of `model` keeps the texts of `line` apart."""
    from transformers import AttentionInterface

    AttentionInterface.register(ATTENTION, _attention)
    before, token = model.config._attn_implementation, _current.set(line)
    model.config._attn_implementation = ATTENTION
    try:
        yield
    finally:
        model.config._attn_implementation = before
        _current.reset(token)


def _attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """Attention of states (1, H, N, D) as transformers calls it, each text among its own tokens."""
    line = _current.get()
    scale = query.shape[-1] ** -0.5
    known = {name: value for name, value in options.items() if value is not None}
    if line is None or attention_mask is not None or known.get("dropout") or not _close(known.get("scaling"), scale):
        raise NotImplementedError("this attention is more than the plain one")
    if getattr(module, "is_causal", False) or known.get("sliding_window") or known.get("softcap"):
        raise NotImplementedError("this attention does not see whole texts")
    if query.shape[1] != key.shape[1]:
        raise NotImplementedError("this attention shares its keys")
    line.attended.append(type(module).__name__)
    states = [part[0].transpose(0, 1).contiguous() for part in (query, key, value)]  # (N, H, D)
    return attend(states[0], states[1], states[2], line).unsqueeze(0), None


def attend(query: Tensor, key: Tensor, value: Tensor, line: Line) -> Tensor:
    """Attention of states (N, H, D), each text of `line` among its own tokens.

    Where there is no kernel for it, all pairs of tokens are compared and most of them masked: for a few texts only.
    """
    if query.is_cuda and query.dtype in HALF:
        from torch.nn.attention.varlen import varlen_attn

        mixed = varlen_attn(query, key, value, line.bounds, line.bounds, line.longest, line.longest)
        assert isinstance(mixed, Tensor)
        return mixed
    same = line.owner.unsqueeze(0) == line.owner.unsqueeze(1)
    heads = [part.transpose(0, 1).unsqueeze(0) for part in (query, key, value)]
    return functional.scaled_dot_product_attention(heads[0], heads[1], heads[2], attn_mask=same)[0].transpose(0, 1)


def first_positions(model: nn.Module) -> list[int]:
    """What a model may call the position of the first token: 0, or in RoBERTa's family what follows the padding."""
    padding = getattr(getattr(model, "embeddings", None), "padding_idx", None)
    return [0] if padding is None else [0, padding + 1]


def _close(given: Any, wanted: float) -> bool:
    return given is None or abs(float(given) - wanted) < 1e-6 * wanted


def agrees(states: Tensor, others: Tensor, least: float = 0.999) -> bool:
    """Whether states (..., D) of the same texts, computed in two ways, are the same but for rounding."""
    return bool((functional.cosine_similarity(states.float(), others.float(), dim=-1) > least).all())
