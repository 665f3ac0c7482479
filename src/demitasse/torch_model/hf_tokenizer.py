"""The tokenizer of a transformers folder, as a `Reader` wants it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tokenizers import Tokenizer

from demitasse.encoding.packed_tokens import PackedTokens
from demitasse.encoding.reader import BatchTokenizer, fastest_tokenizer
from demitasse.encoding.tokenizer_errors import check_ids, told
from demitasse.encoding.word_cache import tokenizes_words
from demitasse.errors import FolderError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def tokenizer_at(folder: str) -> PreTrainedTokenizerBase:
    """The tokenizer in `folder`."""
    from transformers import AutoTokenizer

    path, cure = Path(folder) / "tokenizer.json", "copy the model's tokenizer.json and tokenizer_config.json into it"
    if path.is_file():
        check_ids(path.read_bytes(), path)
    with told(f"no tokenizer can be read from {folder}", cure):
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
        count = len(tokenizer)
    # Where the files are missing, transformers makes a tokenizer with an empty vocabulary.
    if count <= len(tokenizer.all_special_tokens):
        raise FolderError(
            f"the tokenizer in {folder} has no vocabulary; copy tokenizer.json and tokenizer_config.json into it"
        )
    limit = tokenizer.model_max_length
    if isinstance(limit, bool) or not isinstance(limit, (int, float)) or not limit > 0:
        raise FolderError(
            f"the tokenizer in {folder} has a model_max_length of {limit!a:.60}, which must be a number above 0; "
            "copy tokenizer_config.json again"
        )
    return tokenizer


def batch_tokenizer(tokenizer: PreTrainedTokenizerBase, max_tokens: int) -> BatchTokenizer:
    """`tokenizer`, truncating at `max_tokens`: by its Rust backend where it has one."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return _PythonTokenizer(tokenizer, max_tokens)
    with told("the model's tokenizer cannot be used"):
        if tokenizes_words(backend):  # the cache sets limits of its own, and `tokenizer` is saved with its own
            backend = Tokenizer.from_str(backend.to_str())
        return fastest_tokenizer(backend, max_tokens, tokenizer.truncation_side)


def empty_id(tokenizer: PreTrainedTokenizerBase) -> int:
    """The token given to a text that has none."""
    choices = (tokenizer.eos_token_id, tokenizer.bos_token_id, tokenizer.pad_token_id)
    return next((token for token in choices if token is not None), 0)


@dataclass(frozen=True)
class _PythonTokenizer:
    """A tokenizer written in Python, without a Rust backend."""

    tokenizer: PreTrainedTokenizerBase
    max_tokens: int

    def tokenize(self, texts: list[str]) -> PackedTokens:
        if not texts:
            return PackedTokens.of([])
        with told("the model's tokenizer fails"):
            ids = list(self.tokenizer(texts, verbose=False)["input_ids"])
        whole_lengths = [len(own) for own in ids]
        for index, length in enumerate(whole_lengths):
            if length > self.max_tokens:
                ids[index] = self.tokenizer(texts[index], truncation=True, max_length=self.max_tokens)["input_ids"]
        return PackedTokens.of(ids, whole_lengths)

    def prompt_length(self, prompt: str) -> int:
        ids = self.tokenize([prompt]).ids_of(0)
        return len(ids) - (ids[-1] in self.tokenizer.all_special_ids if ids else 0)

    @property
    def vocabulary_size(self) -> int:
        return len(self.tokenizer)

    def vocabulary(self) -> dict[str, int]:
        return dict(self.tokenizer.get_vocab())

    def limited(self, max_tokens: int) -> _PythonTokenizer:
        return replace(self, max_tokens=max_tokens)
