from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from demitasse.encoding import word_cache as words
from demitasse.encoding.block_files import TOKENIZER
from demitasse.encoding.word_cache import WordCache, word_cache_for
from demitasse.host.bundled import BUILT_IN, corpus

LIMIT = 16


def fresh() -> tuple[Tokenizer, WordCache]:
    tokenizer = Tokenizer.from_file(str(BUILT_IN / TOKENIZER))
    remembered = word_cache_for(tokenizer, LIMIT)
    assert remembered is not None
    tokenizer.no_padding()
    tokenizer.enable_truncation(LIMIT)
    return tokenizer, remembered


TOKENIZER_ITSELF, REMEMBERED = fresh()
# Everything that could tell a space from the end of a word: accents, controls, other spaces, special tokens, CJK.
PIECES = [
    "a",
    "é",
    "é",
    "\t",
    "\n",
    "　",
    "\x00",
    "\xad",
    "[CLS]",
    "[MASK]",
    "漢字",
    "İ",
    ".",
    "don't",
    "  ",
    "ﬁ",
    "x" * 120,
]
TEXTS = st.lists(st.one_of(st.text(max_size=40), st.lists(st.sampled_from([*PIECES, " "])).map("".join)), max_size=40)


@given(TEXTS)
def test_tokens_are_those_of_the_tokenizer(texts: list[str]) -> None:
    texts = [text.encode("utf-8", "replace").decode() for text in texts] * 2  # enough to be looked up at once
    rows = REMEMBERED.tokenize(texts)
    for index, encoding in enumerate(TOKENIZER_ITSELF.encode_batch(texts)):
        assert rows.row(index) == encoding.ids


def test_long_texts_and_many_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "CHUNK", 1 << 10)
    tokenizer, remembered = fresh()
    texts = [*corpus(), "word " * 3000, "x" * 5000, "", "é" * 400]
    rows = remembered.tokenize(texts)
    assert [rows.row(index) for index in range(len(rows))] == [row.ids for row in tokenizer.encode_batch(texts)]


def test_a_full_memory_starts_afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "REMEMBERED", 50)
    tokenizer, remembered = fresh()
    for start in range(0, 200, 40):
        texts = corpus()[start : start + 40]
        rows = remembered.tokenize(texts)
        assert [rows.row(index) for index in range(40)] == [row.ids for row in tokenizer.encode_batch(texts)]
        assert len(remembered._memory.counts) < 1000


def test_anew_it_remembers_nothing_and_gives_the_same() -> None:
    tokenizer, remembered = fresh()
    remembered.tokenize(corpus()[:60])
    before = len(remembered._memory.counts)
    again = remembered.fresh()
    assert len(again._memory.counts) == 0
    rows = again.tokenize(corpus()[:90])
    assert [rows.row(index) for index in range(90)] == [row.ids for row in tokenizer.encode_batch(corpus()[:90])]
    assert len(remembered._memory.counts) == before > 0


def test_threads_may_share_it() -> None:
    tokenizer, remembered = fresh()
    parts = [corpus()[start : start + 30] for start in range(0, 240, 10)]
    with ThreadPoolExecutor(8) as pool:
        for texts, rows in zip(parts, pool.map(remembered.batch, parts), strict=True):
            assert [rows.row(index) for index in range(30)] == [row.ids for row in tokenizer.encode_batch(texts)]


def test_a_prompt_is_counted_without_the_token_that_ends_a_text() -> None:
    assert REMEMBERED.prompt_length("a b") == 3  # [CLS] a b


def test_other_tokenizers_are_left_alone() -> None:
    assert word_cache_for(Tokenizer(models.BPE()), LIMIT) is None
    bert = json.loads(Tokenizer.from_file(str(BUILT_IN / TOKENIZER)).to_str())
    metaspace = Tokenizer.from_str(json.dumps(bert))
    metaspace.pre_tokenizer = pre_tokenizers.Metaspace()
    assert word_cache_for(metaspace, LIMIT) is None
    assert word_cache_for(Tokenizer.from_str(json.dumps(bert)), LIMIT, direction="left") is None
    spaced = Tokenizer.from_str(json.dumps(bert))
    spaced.add_tokens(["two words"])
    assert word_cache_for(spaced, LIMIT) is None
