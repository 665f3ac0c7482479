"""Words strung together have the tokens that each has by itself."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer

from demitasse.encoding.block_files import TOKENIZER
from demitasse.encoding.word_tokens import WordTokenizer
from demitasse.host.bundled import BUILT_IN, corpus

BERT = Tokenizer.from_file(str(BUILT_IN / TOKENIZER))
BERT.no_truncation()
BERT.no_padding()
PLAIN = sorted({word for text in corpus() for word in text.split() if word.isalnum() and word.isascii()})


def tokens(tokenizer: Tokenizer, words: list[str]) -> list[list[int]]:
    encoded = [word.encode() for word in words]
    letters = np.frombuffer(b"".join(encoded), np.uint8)
    packed = WordTokenizer(tokenizer).tokens(letters, np.array([len(word) for word in encoded], np.int64))
    return [packed.ids_of(index) for index in range(len(packed))]


def by_itself(tokenizer: Tokenizer, words: list[str]) -> list[list[int]]:
    return [tokenizer.encode(word, add_special_tokens=False).ids for word in words]


def changed(change: Callable[[dict[str, dict[str, object]]], None]) -> Tokenizer:
    plain = json.loads(BERT.to_str())
    change(plain)
    return Tokenizer.from_str(json.dumps(plain))


@given(
    st.lists(
        st.one_of(
            st.text(st.characters(exclude_characters=" \0", exclude_categories=["Cs"])),
            st.from_regex(r"[A-Za-z0-9]{0,120}", fullmatch=True),
        ),
        min_size=1,
    )
)
def test_words_of_any_kind(words: list[str]) -> None:
    assert tokens(BERT, words) == by_itself(BERT, words)


def test_many_words_are_read_as_a_few_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    words = [*PLAIN, *(f"{word}{number}" for number, word in enumerate(PLAIN))]
    real, asked = WordTokenizer.ids, list[int]()

    def counting(self: WordTokenizer, texts: list[str]) -> list[list[int]]:
        asked.append(len(texts))
        return real(self, texts)

    monkeypatch.setattr(WordTokenizer, "ids", counting)
    assert tokens(BERT, words) == by_itself(BERT, words)
    assert asked == [8]


def test_added_tokens_that_could_be_found_in_words_keep_them_apart() -> None:
    added = Tokenizer.from_str(BERT.to_str())
    added.add_tokens(["covid", AddedToken("zé", normalized=True)])
    words = ["covid19", "postcovid", "haze", "aZe", "cup"]
    assert tokens(added, words) == by_itself(added, words)
    assert tokens(added, words)[0] != tokens(BERT, words)[0]


def test_a_prefix_that_a_word_could_begin_with_keeps_them_apart() -> None:
    def rename(plain: dict[str, dict[str, object]]) -> None:
        vocabulary: dict[str, int] = plain["model"]["vocab"]  # type: ignore[assignment]
        plain["model"]["continuing_subword_prefix"] = "x"
        plain["model"]["vocab"] = {
            ("x" + token[2:] if token.startswith("##") and "x" + token[2:] not in vocabulary else token): number
            for token, number in vocabulary.items()
        }

    other = changed(rename)
    words = ["xylophone", "x", "unbelievable", "xx", "cup"]
    assert tokens(other, words) == by_itself(other, words)
