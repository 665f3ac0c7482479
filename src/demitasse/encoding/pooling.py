"""`Pooling`: which tokens make the state of a text, and the sentence-transformers config that says so. No torch.

Pooling itself runs on torch (torch_model/torch_pooling.py) or inside an exported graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from demitasse.encoding.packed_tokens import Ids
from demitasse.errors import FolderError

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
        if len({*self.modes}) < len(self.modes):
            raise FolderError(f"pooling has the same mode twice ({', '.join(self.modes):.200}); use each once")
        for mode in self.modes or ("",):
            if mode not in _FLAGS:
                raise FolderError(f"pooling mode {mode!a:.60} is not known; use one or more of {', '.join(_FLAGS)}")

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


def without_prompt(mask: Ids, prompt_tokens: int | Ids) -> Ids:
    """`mask` (B, T) less the first `prompt_tokens` real tokens of each text; a text that is all prompt keeps its own.

    Padding may be on either side. `torch_model.torch_pooling.without_prompt` is the same for tensors.

    >>> without_prompt(np.array([[1, 1, 1, 0], [0, 0, 1, 1]]), 2).tolist()
    [[0, 0, 1, 0], [0, 0, 1, 1]]
    """
    rest = mask * (mask.cumsum(1) > prompt_tokens)
    return np.where(rest.any(1, keepdims=True), rest, mask)
