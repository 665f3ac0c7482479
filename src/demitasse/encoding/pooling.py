"""From token states to one vector a text, and the sentence-transformers config that says which way.

Padding is told apart by the attention mask alone, so left and right padding give the same vectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from demitasse.errors import FolderError

if TYPE_CHECKING:
    from torch import Tensor

# mode -> its flag in the sentence-transformers config, in the order in which that library concatenates them.
_FLAGS = {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "last": "pooling_mode_lasttoken",
}
_NEW_NAMES = {"last": "lasttoken", "mean_sqrt_len": "mean_sqrt_len_tokens"}  # as `pooling_mode` spells them


@dataclass(frozen=True)
class Pooling:
    """Which token states make the text's state; several modes are concatenated.

    `cls` is the first real token, `last` the last one, `max` never sees padding. `include_prompt=False` leaves the
    prompt's own tokens out, as INSTRUCTOR models want.

    >>> str(Pooling(("cls", "mean")))
    'cls+mean'
    """

    modes: tuple[str, ...] = ("mean",)
    include_prompt: bool = True

    def __post_init__(self) -> None:
        for mode in self.modes or ("",):
            if mode not in _FLAGS:
                raise FolderError(f"pooling mode {mode!r} is not known; use one or more of {', '.join(_FLAGS)}")

    def __str__(self) -> str:
        return "+".join(self.modes)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Pooling:
        """The pooling that a sentence-transformers `1_Pooling/config.json` describes, old keys or new."""
        if "pooling_mode" in config:
            written = config["pooling_mode"]
            names = [written] if isinstance(written, str) else list(written)
            short = {new: mode for mode, new in _NEW_NAMES.items()}
            modes = tuple(short.get(name, name) for name in names)
        else:
            modes = tuple(mode for mode, flag in _FLAGS.items() if config.get(flag)) or ("mean",)
        return cls(modes, bool(config.get("include_prompt", True)))

    def to_config(self, width: int) -> dict[str, Any]:
        """The sentence-transformers config of this pooling over token states of `width` dims."""
        tail = {"include_prompt": self.include_prompt}
        if list(self.modes) == [mode for mode in _FLAGS if mode in self.modes]:
            # The old keys: every release of sentence-transformers reads them.
            flags = {flag: mode in self.modes for mode, flag in _FLAGS.items()}
            return {"word_embedding_dimension": width, **flags, **tail}
        names = [_NEW_NAMES.get(mode, mode) for mode in self.modes]
        return {"embedding_dimension": width, "pooling_mode": names, **tail}

    def __call__(self, hidden: Tensor, mask: Tensor, prompt_tokens: int = 0) -> Tensor:
        """The states (B, len(modes) * D) of token states `hidden` (B, T, D) under `mask` (B, T)."""
        kept = mask if self.include_prompt or not prompt_tokens else without_prompt(mask, prompt_tokens)
        return self.over(hidden, kept, mask)

    def over(self, hidden: Tensor, kept: Tensor, mask: Tensor) -> Tensor:
        """The same over the tokens of `kept` (B, T) only, which are some of the real ones."""
        import torch

        pooled = [_pool(mode, hidden, kept, mask) for mode in self.modes]
        return pooled[0] if len(pooled) == 1 else torch.cat(pooled, dim=-1)

    def token_weights(self, kept: Tensor, mask: Tensor) -> Tensor | None:
        """What each token counts for (B, T), where pooling is a weighted sum; `None` where it is not."""
        if len(self.modes) > 1 or self.modes[0] not in ("mean", "mean_sqrt_len", "weightedmean"):
            return None
        weights, divisor = _weighed(self.modes[0], kept.float(), mask)
        return weights / divisor


def _pool(mode: str, hidden: Tensor, kept: Tensor, mask: Tensor) -> Tensor:
    import torch

    if mode in ("cls", "last"):
        length = kept.shape[1]
        position = kept.int().argmax(1) if mode == "cls" else length - 1 - kept.flip(1).int().argmax(1)
        return hidden[torch.arange(len(hidden), device=hidden.device), position]
    inside = kept.bool().unsqueeze(-1)  # (B, T, 1)
    if mode == "max":
        return hidden.masked_fill(~inside, float("-inf")).amax(1)
    weights, divisor = _weighed(mode, kept.to(hidden.dtype), mask)
    # Sums in fp32, whatever the states are in; zeros at the padding, since 0 * inf would poison the sum.
    total = (hidden.masked_fill(~inside, 0) * weights.unsqueeze(-1)).sum(1, dtype=torch.float32)
    return (total / divisor).to(hidden.dtype)


def _weighed(mode: str, kept: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """What each token counts for (B, T), in the number format of `kept`, and what their sum is divided by, in fp32."""
    import torch

    weights = kept * mask.cumsum(1).to(kept.dtype) if mode == "weightedmean" else kept  # the n-th real token weighs n
    count = weights.sum(1, keepdim=True, dtype=torch.float32).clamp(min=1e-9)
    return weights, count.sqrt() if mode == "mean_sqrt_len" else count


def without_prompt(mask: Tensor, prompt_tokens: int | Tensor) -> Tensor:
    """`mask` less the first `prompt_tokens` real tokens of each row (all of them kept if nothing else is there)."""
    rest = mask * (mask.cumsum(1) > prompt_tokens)
    return rest.where(rest.any(1, keepdim=True), mask)
