"""From texts to token ids, with the model's own tokenizer. No torch."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

from tokenizers import Tokenizer

from demitasse.encoding.packed_tokens import Batch, PackedTokens
from demitasse.encoding.prompts import literal_prompt, prompt_text
from demitasse.encoding.tokenizer_errors import told
from demitasse.encoding.word_cache import WordCache, word_cache_for
from demitasse.errors import DataError, FolderError, shown


def _tokenize_alone() -> None:
    """In a fork: the tokenizer's threads are not there, and one that was told to use them would wait for ever."""
    if os.environ.get(_PARALLEL):
        os.environ[_PARALLEL] = "false"


_PARALLEL = "TOKENIZERS_PARALLELISM"
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_tokenize_alone)


class BatchTokenizer(Protocol):
    """Tokenizes many texts at once: adds the special tokens and truncates to the model's limit."""

    def tokenize(self, texts: list[str]) -> PackedTokens:
        """The token ids of each text."""

    def prompt_length(self, prompt: str) -> int:
        """How many leading tokens of a text the prompt takes."""

    @property
    def vocabulary_size(self) -> int:
        """How many token ids there are."""

    def vocabulary(self) -> dict[str, int]:
        """Every token with its id."""

    def limited(self, max_tokens: int) -> Self:
        """The same tokenizer, truncating at `max_tokens`."""


@dataclass(frozen=True)
class RustTokenizer:
    """Any `tokenizers.Tokenizer` that has truncation enabled."""

    tokenizer: Tokenizer

    def tokenize(self, texts: list[str]) -> PackedTokens:
        """The token ids of each text."""
        with told("the model's tokenizer fails"):
            encodings = self.tokenizer.encode_batch_fast(texts)
        around = self.tokenizer.num_special_tokens_to_add(is_pair=False)
        # What was truncated is in pieces, each with special tokens of its own.
        rests = [sum(len(piece.ids) - around for piece in encoding.overflowing) for encoding in encodings]
        ids = [encoding.ids for encoding in encodings]
        return PackedTokens.of(ids, [len(kept) + rest for kept, rest in zip(ids, rests, strict=True)])

    def prompt_length(self, prompt: str) -> int:
        """How many leading tokens of a text the prompt takes."""
        with told("the model's tokenizer fails"):
            encoding = self.tokenizer.encode(prompt)
        return len(encoding.ids) - (encoding.special_tokens_mask[-1] if encoding.ids else 0)

    @property
    def vocabulary_size(self) -> int:
        """How many token ids there are."""
        return int(self.tokenizer.get_vocab_size(with_added_tokens=True))

    def vocabulary(self) -> dict[str, int]:
        """Every token with its id."""
        return dict(self.tokenizer.get_vocab(with_added_tokens=True))

    def limited(self, max_tokens: int) -> RustTokenizer:
        """The same tokenizer, truncating at `max_tokens`."""
        tokenizer = Tokenizer.from_str(self.tokenizer.to_str())  # a copy, since the limit is stored inside it
        tokenizer.enable_truncation(max_tokens, direction=(self.tokenizer.truncation or {}).get("direction", "right"))
        return RustTokenizer(tokenizer)


def fastest_tokenizer(tokenizer: Tokenizer, max_tokens: int, direction: str = "right") -> BatchTokenizer:
    """`tokenizer` with a word cache where its kind allows one, which is much faster; else as it is.

    Its limits are set, so it should be no one else's.
    """
    around = tokenizer.num_special_tokens_to_add(is_pair=False)
    if around >= max_tokens:  # a limit below them would be ignored
        raise FolderError(
            f"the tokenizer adds {around} special tokens to every text, and the model takes {max_tokens} tokens; copy "
            "the model again"
        )
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

    def prefix(self, prompt_name: str | None = None, prompt: str | None = None) -> str:
        """What is put before every text: the prompt of that name, or the text `prompt`; without either, the default."""
        if prompt is None:
            return prompt_text(self.prompts, prompt_name, self.default_prompt)
        if prompt_name is not None:
            raise DataError(
                f"prompt_name={prompt_name!r} and prompt={prompt!r} were both given; give the name of a prompt or its "
                "text"
            )
        return literal_prompt(self.prompts, prompt)

    def read(self, texts: Sequence[str], prompt: str = "") -> PackedTokens:
        """The token ids of each text with its special tokens, truncated to what the model takes."""
        prompted = [prompt + text for text in texts] if prompt else list(texts)
        if self.lowercase:
            prompted = [text.lower() for text in prompted]
        # A tokenizer without special tokens gives none for an empty text, but the model needs at least one.
        return self.tokenizer.tokenize(prompted).without_empty(self.empty_id)

    def read_ids(self, texts: Sequence[Sequence[int]], prompt: str = "") -> PackedTokens:
        """The same for texts given as token ids of this tokenizer, without special tokens, which are added."""
        empty, one, prompted = (self.tokenizer.tokenize([text]).ids_of(0) for text in ("", "a", prompt))
        count = next(
            (at for at, (ours, theirs) in enumerate(zip(empty, one, strict=False)) if ours != theirs), len(empty)
        )
        before, after = prompted[: len(prompted) - len(empty) + count], empty[count:]
        room = max(0, self.max_tokens - len(before) - len(after))
        size = self.tokenizer.vocabulary_size
        for index, ids in enumerate(texts):
            wrong = [token for token in ids if type(token) is not int or not 0 <= token < size]
            if wrong:
                raise DataError(
                    f"text {index} has the token id {shown(wrong[0])}, and this model's tokenizer has 0 to {size - 1}; "
                    "send the text itself, or ids made by that tokenizer"
                )
        packed = PackedTokens.of(
            [[*before, *ids[:room], *after] for ids in texts],
            [len(before) + len(ids) + len(after) for ids in texts],
        )
        return packed.without_empty(self.empty_id)

    def limited(self, max_tokens: int) -> Reader:
        """The same reader, truncating texts at `max_tokens`, which is less than it takes now."""
        least = int(self.tokenizer.tokenize([""]).lengths[0]) + 1  # a limit below the special tokens would be ignored
        try:
            number = 0 if isinstance(max_tokens, bool) else operator.index(max_tokens)
        except TypeError:
            number = 0
        if not least <= number <= self.max_tokens:
            raise DataError(
                f"max_seq_length {shown(max_tokens)} cannot be used; this model takes a whole number from {least} (its "
                f"special tokens and one more) to {self.max_tokens}"
            )
        return replace(self, tokenizer=self.tokenizer.limited(number), max_tokens=number)

    def fresh(self) -> Reader:
        """The same reader, as it was before it read any text."""
        return replace(self, tokenizer=self.tokenizer.fresh()) if isinstance(self.tokenizer, WordCache) else self

    def padded(self, packed: PackedTokens, chosen: Sequence[int]) -> Batch:
        """The token ids of the `chosen` texts, padded to the longest."""
        return packed.padded(chosen, self.pad_id)

    def prompt_tokens(self, prompt: str) -> int:
        """How many leading tokens of a text the prompt takes, for pooling that leaves them out."""
        return self.tokenizer.prompt_length(prompt.lower() if self.lowercase else prompt) if prompt else 0
