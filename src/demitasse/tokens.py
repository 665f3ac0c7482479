"""From texts to token ids and padded batches, with the model's own tokenizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from demitasse.errors import FolderError, reason
from demitasse.texts import prompt_text

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, eq=False)
class Reader:
    """How a model reads text: its tokenizer, how many tokens it takes, and its prompts."""

    tokenizer: PreTrainedTokenizerBase
    max_tokens: int
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt: str | None = None
    lowercase: bool = False

    def prompt(self, name: str | None) -> str:
        """What is put before every text under the prompt `name`."""
        return prompt_text(self.prompts, name, self.default_prompt)

    def token_ids(self, texts: Sequence[str], prompt: str = "") -> list[list[int]]:
        """The token ids of each text, special tokens included, no longer than the model takes."""
        if not texts:
            return []
        whole = [prompt + text for text in texts]
        if self.lowercase:
            whole = [text.lower() for text in whole]
        rows: list[list[int]] = self.tokenizer(
            whole,
            truncation=True,
            max_length=self.max_tokens,
            return_attention_mask=False,
            return_token_type_ids=False,
        )["input_ids"]
        # A tokenizer without special tokens makes nothing of an empty text; the model still needs one token.
        return [row or [self._empty_token] for row in rows]

    def prompt_tokens(self, prompt: str) -> int:
        """How many leading tokens of a text the prompt takes, for a pooling that leaves them out."""
        if not prompt:
            return 0
        row = self.token_ids([prompt])[0]
        return len(row) - (row[-1] in self.tokenizer.all_special_ids)

    def padded(self, rows: Sequence[Sequence[int]], device: torch.device) -> dict[str, Tensor]:
        """Rows of ids as `input_ids` and `attention_mask` (B, T).

        Always padded on the right, whatever side the tokenizer prefers: positions then count from the first real
        token and no real token of a decoder sees the padding, so a text's vector does not depend on its batch.
        """
        longest = max(len(row) for row in rows)
        padding = self.tokenizer.pad_token_id
        fill = padding if padding is not None else 0  # masked, so any id does
        ids = torch.tensor([[*row, *[fill] * (longest - len(row))] for row in rows])
        lengths = torch.tensor([len(row) for row in rows])
        mask = (torch.arange(longest) < lengths.unsqueeze(1)).long()
        return {"input_ids": ids.to(device), "attention_mask": mask.to(device)}

    @property
    def _empty_token(self) -> int:
        choices = (self.tokenizer.eos_token_id, self.tokenizer.bos_token_id, self.tokenizer.pad_token_id)
        return next((token for token in choices if token is not None), 0)


def tokenizer_at(folder: str) -> PreTrainedTokenizerBase:
    """The tokenizer kept in `folder`."""
    from transformers import AutoTokenizer

    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as problem:  # transformers and tokenizers raise almost anything here
        raise FolderError(
            f"no tokenizer can be read from {folder} ({reason(problem)}); "
            "copy tokenizer.json and tokenizer_config.json of the model into it"
        ) from problem
    # transformers makes up a tokenizer with an empty vocabulary where the files are missing.
    if len(tokenizer) <= len(tokenizer.all_special_tokens):
        raise FolderError(
            f"the tokenizer in {folder} has no vocabulary; copy tokenizer.json and tokenizer_config.json into it"
        )
    return tokenizer
