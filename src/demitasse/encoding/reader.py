"""From texts to token ids, with the model's own tokenizer. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from tokenizers import Tokenizer

from demitasse.encoding.packed_tokens import Batch, PackedTokens
from demitasse.encoding.text_checks import prompt_text
from demitasse.encoding.word_cache import WordCache, word_cache_for


class BatchTokenizer(Protocol):
    """Tokenizes many texts at once: adds the special tokens and truncates to the model's limit."""

    def tokenize(self, texts: list[str]) -> PackedTokens:
        """The token ids of each text."""

    def prompt_length(self, prompt: str) -> int:
        """How many leading tokens of a text the prompt takes."""


@dataclass(frozen=True)
class RustTokenizer:
    """Any `tokenizers.Tokenizer` that has truncation enabled."""

    tokenizer: Tokenizer

    def tokenize(self, texts: list[str]) -> PackedTokens:
        """The token ids of each text."""
        return PackedTokens.of([encoding.ids for encoding in self.tokenizer.encode_batch_fast(texts)])

    def prompt_length(self, prompt: str) -> int:
        """How many leading tokens of a text the prompt takes."""
        encoding = self.tokenizer.encode(prompt)
        return len(encoding.ids) - (encoding.special_tokens_mask[-1] if encoding.ids else 0)


def fastest_tokenizer(tokenizer: Tokenizer, max_tokens: int, direction: str = "right") -> BatchTokenizer:
    """`tokenizer` with a word cache where its kind allows one, which is much faster; else as it is."""
    cached = word_cache_for(tokenizer, max_tokens, direction)
    if cached is not None:
        return cached
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens, direction=direction)
    return RustTokenizer(tokenizer)


@dataclass(frozen=True, eq=False)
class Reader:
    """How a model reads text: its tokenizer, how many tokens it takes, and its prompts."""

    tokenizer: BatchTokenizer
    max_tokens: int
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt: str | None = None
    lowercase: bool = False
    pad_id: int = 0  # masked, so any id does
    empty_id: int = 0  # the token given to a text that has none
    source: Any = None  # the tokenizer of transformers, where the model came with one

    def prompt(self, name: str | None) -> str:
        """What the prompt `name` puts before every text."""
        return prompt_text(self.prompts, name, self.default_prompt)

    def read(self, texts: Sequence[str], prompt: str = "") -> PackedTokens:
        """The token ids of each text with its special tokens, truncated to what the model takes."""
        prompted = [prompt + text for text in texts] if prompt else list(texts)
        if self.lowercase:
            prompted = [text.lower() for text in prompted]
        # A tokenizer without special tokens gives none for an empty text, but the model needs at least one.
        return self.tokenizer.tokenize(prompted).without_empty(self.empty_id)

    def fresh(self) -> Reader:
        """The same reader, as it was before it read any text."""
        return replace(self, tokenizer=self.tokenizer.fresh()) if isinstance(self.tokenizer, WordCache) else self

    def padded(self, packed: PackedTokens, chosen: Sequence[int]) -> Batch:
        """The token ids of the `chosen` texts, padded to the longest."""
        return packed.padded(chosen, self.pad_id)

    def prompt_tokens(self, prompt: str) -> int:
        """How many leading tokens of a text the prompt takes, for pooling that leaves them out."""
        return self.tokenizer.prompt_length(prompt.lower() if self.lowercase else prompt) if prompt else 0
