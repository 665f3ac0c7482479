from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from demitasse import load
from demitasse.encoding import word_cache as words
from demitasse.encoding.block_files import TOKENIZER
from demitasse.encoding.packed_tokens import PackedTokens
from demitasse.encoding.word_cache import WordCache, word_cache_for
from demitasse.host.bundled import BUILT_IN, corpus

LIMIT = 16


def fresh() -> tuple[Tokenizer, WordCache]:
    tokenizer, own = (Tokenizer.from_file(str(BUILT_IN / TOKENIZER)) for _ in range(2))
    cache = word_cache_for(own, LIMIT)
    assert cache is not None
    tokenizer.no_padding()
    tokenizer.enable_truncation(LIMIT)
    return tokenizer, cache


def ids_of(packed: PackedTokens) -> list[list[int]]:
    return [packed.ids_of(index) for index in range(len(packed))]


TOKENIZER_ITSELF, CACHE = fresh()
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
    assert ids_of(CACHE.tokenize(texts)) == [encoding.ids for encoding in TOKENIZER_ITSELF.encode_batch(texts)]


def test_long_texts_and_many_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "CHUNK", 1 << 10)
    tokenizer, cache = fresh()
    texts = [*corpus(), "word " * 3000, "x" * 5000, "", "é" * 400]
    packed = cache.tokenize(texts)
    assert ids_of(packed) == [encoding.ids for encoding in tokenizer.encode_batch(texts)]


def test_a_full_cache_starts_empty_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "REMEMBERED", 50)
    tokenizer, cache = fresh()
    for start in range(0, 200, 40):
        texts = corpus()[start : start + 40]
        packed = cache.tokenize(texts)
        assert ids_of(packed) == [encoding.ids for encoding in tokenizer.encode_batch(texts)]
        assert len(cache._memory.counts) < 1000


def test_no_number_of_distinct_words_outgrows_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one call, too: with more words than slots, finding a free one would never end."""
    monkeypatch.setattr(words, "REMEMBERED", 500)
    monkeypatch.setattr(words, "CHUNK", 1 << 10)
    tokenizer, cache = fresh()
    texts = [" ".join(f"w{number}x" for number in range(start, start + 20)) for start in range(0, 10_000, 20)]
    packed = cache.tokenize(texts)
    assert ids_of(packed) == [encoding.ids for encoding in tokenizer.encode_batch(texts)]
    assert len(cache._memory.counts) <= 500 + (1 << 10)


def test_a_fresh_cache_is_empty_and_gives_the_same() -> None:
    tokenizer, cache = fresh()
    cache.tokenize(corpus()[:60])
    before = len(cache._memory.counts)
    again = cache.fresh()
    assert len(again._memory.counts) == 0
    packed = again.tokenize(corpus()[:90])
    assert ids_of(packed) == [encoding.ids for encoding in tokenizer.encode_batch(corpus()[:90])]
    assert len(cache._memory.counts) == before > 0


def test_threads_may_share_a_cache() -> None:
    tokenizer, cache = fresh()
    parts = [corpus()[start : start + 30] for start in range(0, 240, 10)]
    with ThreadPoolExecutor(8) as pool:
        for texts, packed in zip(parts, pool.map(cache.tokenize, parts), strict=True):
            assert ids_of(packed) == [encoding.ids for encoding in tokenizer.encode_batch(texts)]


def test_the_length_of_a_prompt_leaves_out_the_last_special_token() -> None:
    assert CACHE.prompt_length("a b") == 3  # [CLS] a b


def test_other_tokenizers_get_no_cache() -> None:
    assert word_cache_for(Tokenizer(models.BPE()), LIMIT) is None
    bert = json.loads(Tokenizer.from_file(str(BUILT_IN / TOKENIZER)).to_str())
    metaspace = Tokenizer.from_str(json.dumps(bert))
    metaspace.pre_tokenizer = pre_tokenizers.Metaspace()
    assert word_cache_for(metaspace, LIMIT) is None
    assert word_cache_for(Tokenizer.from_str(json.dumps(bert)), LIMIT, direction="left") is None
    spaced = Tokenizer.from_str(json.dumps(bert))
    spaced.add_tokens(["two words"])
    assert word_cache_for(spaced, LIMIT) is None


# Words that had the hash of an everyday word when the base of the hash was a constant in the source, found by lattice
# reduction: whoever encoded one changed what others got for the everyday word.
COLLIDING = {"bank": "ooknlomknmnlmmmlmmlknmmmmmnmnmlmkn"}


def hash_with(base: int, word: str) -> int:
    return (sum(byte * pow(base, index, 1 << 64) for index, byte in enumerate(word.encode())) + len(word)) % (1 << 64)


def test_no_text_changes_the_vector_of_another() -> None:
    filler = corpus()[:40]
    for word, attack in COLLIDING.items():
        assert hash_with(0x9E3779B97F4A7C15, word) == hash_with(0x9E3779B97F4A7C15, attack)
        text = f"i walked along the {word} of the river"
        expected = load().encode([text, *filler])[0]
        encoder = load()
        encoder.encode([attack, *filler])
        assert (encoder.encode([text, *filler])[0] == expected).all()


@pytest.mark.parametrize("hashes", ["only the length", "one for all"])
def test_words_with_the_same_hash_have_their_own_tokens(hashes: str) -> None:
    tokenizer, cache = fresh()
    cache._powers = np.zeros_like(cache._powers)  # what a word is made of no longer counts, only how long it is
    if hashes == "one for all":
        cache._inverses = np.zeros_like(cache._inverses)
    texts = [*corpus(), "one two six ten", "", "a b c d"]
    for _ in range(2):
        assert ids_of(cache.tokenize(texts)) == [encoding.ids for encoding in tokenizer.encode_batch(texts)]
    parts = [texts[start : start + 30] for start in range(0, 240, 10)]
    with ThreadPoolExecutor(8) as pool:
        for part, packed in zip(parts, pool.map(cache.tokenize, parts), strict=True):
            assert ids_of(packed) == [encoding.ids for encoding in tokenizer.encode_batch(part)]


def test_words_that_collide_for_every_base_have_their_own_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thue-Morse words: whatever the base is, their hashes modulo 2^64 are equal."""
    tokenizer, cache = fresh()
    word = "a"
    for _ in range(11):
        word += word.translate(str.maketrans("ab", "ba"))
    other = word.translate(str.maketrans("ab", "ba"))
    base = int(cache._powers[1])
    assert hash_with(base, word) == hash_with(base, other)
    seen: list[int] = []
    real = cache._words.tokens
    monkeypatch.setattr(
        cache._words, "tokens", lambda letters, lengths: seen.append(len(lengths)) or real(letters, lengths)
    )
    texts = [word, other] * 20
    assert ids_of(cache.tokenize(texts)) == [encoding.ids for encoding in tokenizer.encode_batch(texts)]
    assert len(set(seen)) == 2  # the first was learned, the others corrected


def test_every_cache_has_a_base_of_its_own() -> None:
    bases = {int(fresh()[1]._powers[1]) for _ in range(8)}
    assert len(bases) == 8
    assert all(base % 2 for base in bases)
    # Every bit but the lowest is drawn: over 8 bases, none is the same in all but by a chance of one in 2^7.
    assert sum(len({base >> bit & 1 for base in bases}) == 1 for bit in range(1, 64)) < 16


def test_hashes_of_words_spread_over_the_table() -> None:
    """Whatever the base: no everyday words collide, and no part of the table attracts many times its share of them."""
    everyday = sorted(
        {word for text in corpus() for word in text.split()} | {f"word{number}" for number in range(20_000)}
    )
    raw = np.frombuffer("\0".join(everyday).encode() + b"\0", np.uint8)
    ends = np.flatnonzero(raw == 0)
    starts = np.append(0, ends[:-1] + 1)
    attacked = 0
    for _ in range(4):
        _, cache = fresh()
        sums = np.append(np.uint64(0), np.cumsum(raw * cache._powers[: len(raw)], dtype=np.uint64))
        hashes = (sums[ends] - sums[starts]) * cache._inverses[starts] + (ends - starts).astype(np.uint64)
        assert len(np.unique(hashes)) == len(everyday)
        counts = np.bincount(words._slots(hashes) >> 10, minlength=1 << 10)  # 1,024 parts of the table, ~21 words each
        # Not as even as random numbers: words that count up (word1, word2, ...) fall into a pattern for some bases.
        assert counts.max() < 10 * counts.mean()
        base = int(cache._powers[1])
        attacked += sum(hash_with(base, word) == hash_with(base, attack) for word, attack in COLLIDING.items())
    assert attacked == 0


def test_words_that_collide_never_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are added each time they are seen, since they cannot be found; the limits hold for them, too."""
    monkeypatch.setattr(words, "LETTERS", 50_000)
    tokenizer, cache = fresh()
    cache._powers = np.zeros_like(cache._powers)  # the hash of a word is its length
    texts = [f"{number:05d}" for number in range(400)]
    for _ in range(40):
        assert ids_of(cache.tokenize(texts)) == [encoding.ids for encoding in tokenizer.encode_batch(texts)]
        assert len(cache._memory._letters) <= 50_000 + words.CHUNK


def test_threads_that_learn_the_same_words_while_the_cache_is_emptied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "REMEMBERED", 300)
    tokenizer, cache = fresh()
    parts = [[f"new{number} w{number % 7}" for number in range(start, start + 60)] for start in range(0, 1200, 60)]
    expected = [[encoding.ids for encoding in tokenizer.encode_batch(part)] for part in parts]
    together = threading.Barrier(6)

    def read(_: int) -> list[list[list[int]]]:
        together.wait()  # so that all of them meet the same new words at once
        return [ids_of(cache.tokenize(part)) for part in parts]

    with ThreadPoolExecutor(6) as pool:
        assert all(found == expected for found in pool.map(read, range(6)))
