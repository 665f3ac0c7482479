"""Texts that are too long: counted, told or refused, in the pass that encodes them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer
from transformers import ByT5Tokenizer

from demitasse import Cut, DataError, Encoder, load
from demitasse.encoding.block_files import TOKENIZER
from demitasse.encoding.reader import BatchTokenizer, RustTokenizer
from demitasse.encoding.token_tally import TokenTally
from demitasse.encoding.word_cache import word_cache_for
from demitasse.encoding.word_processes import WordProcesses
from demitasse.host.bundled import BUILT_IN, corpus
from demitasse.torch_model.hf_tokenizer import batch_tokenizer

LIMIT = 12
TEXTS = [*corpus()[:60], "", "a", "word " * 10, "word " * 11, "word " * 900, "unbelievably " * 9]


def whole() -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(BUILT_IN / TOKENIZER))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def rust(direction: str) -> BatchTokenizer:
    tokenizer = whole()
    tokenizer.enable_truncation(LIMIT, direction=direction)
    return RustTokenizer(tokenizer)


def cached() -> Any:
    cache = word_cache_for(whole(), LIMIT)
    assert cache is not None
    return cache


TOKENIZERS: dict[str, Callable[[], BatchTokenizer]] = {
    "words": cached,
    "words of another limit": lambda: cached().limited(40).limited(LIMIT),
    "processes": lambda: WordProcesses(cached(), 2),
    "rust": lambda: rust("right"),
    "rust from the left": lambda: rust("left"),
    "rust of another limit": lambda: rust("left").limited(40).limited(LIMIT),
}


@pytest.mark.parametrize("name", TOKENIZERS)
def test_every_tokenizer_knows_how_long_a_text_was(name: str) -> None:
    tokenizer, expected = TOKENIZERS[name](), [len(encoding.ids) for encoding in whole().encode_batch(TEXTS)]
    for texts, lengths in ((TEXTS, expected), (TEXTS[-6:], expected[-6:]), (TEXTS[:1], expected[:1])):
        packed = tokenizer.tokenize(texts)
        assert packed.whole_lengths.tolist() == lengths
        assert packed.lengths.tolist() == [min(length, LIMIT) for length in lengths]
        assert packed.truncated.tolist() == [length > LIMIT for length in lengths]


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_tokenizer_in_python_knows_it_too(side: str) -> None:
    source = ByT5Tokenizer(truncation_side=side)
    tokenizer = batch_tokenizer(source, 40).limited(6)
    packed = tokenizer.tokenize(["four", "five5", "more than six"])
    assert packed.whole_lengths.tolist() == [5, 6, 14]
    assert packed.lengths.tolist() == [5, 6, 6]
    kept = {"left": "n six", "right": "more "}[side]
    assert packed.ids_of(2) == source(kept)["input_ids"]


@pytest.fixture(scope="module", params=["torch", "blocks"])
def any_encoder(request: pytest.FixtureRequest, encoder: Encoder) -> Encoder:
    return encoder if request.param == "torch" else load(max_seq_length=32).cut(0, 32)


LONG = "kan " * 50


def test_tokens_are_counted_before_truncation(any_encoder: Encoder) -> None:
    texts = ["kan", LONG, "", "kan lor"]
    counts = any_encoder.count_tokens(texts)
    assert counts.dtype == np.int64
    assert (counts > any_encoder.max_seq_length).tolist() == [False, True, False, False]
    assert counts[2] == 2  # the special tokens
    assert any_encoder.count_tokens(["lor"], prompt="kan ") == any_encoder.count_tokens(["kan lor"])
    assert any_encoder.count_tokens([]).tolist() == []


def test_one_pass_counts_tokens_and_truncated_texts(any_encoder: Encoder) -> None:
    texts, tally = ["kan", LONG] * 40, TokenTally()
    any_encoder.encode_cuts(texts, [any_encoder.full, Cut(0, 4)], tally=tally)
    counts = any_encoder.count_tokens(texts)
    assert (tally.texts, tally.truncated) == (80, 40)
    assert tally.tokens == np.minimum(counts, 32).sum()


def test_a_long_text_is_refused_by_its_place(any_encoder: Encoder) -> None:
    texts = ["kan"] * 5000 + [LONG, LONG]  # in the second window
    for encode, name in (
        (any_encoder.encode, None),
        (any_encoder.encode_query, "query"),
        (any_encoder.encode_document, "document"),
        (lambda texts, on_long: list(any_encoder.encode_iter(texts, on_long=on_long)), None),
    ):
        length = any_encoder.count_tokens([LONG], prompt_name=name)[0]
        with pytest.raises(DataError, match=f'text 5000 has {length} tokens and the model takes 32; .* on_long="cut"'):
            encode(texts, on_long="error")  # type: ignore[operator]
    assert any_encoder.encode(texts[:3], on_long="error").shape == (3, 32)


def test_a_warning_says_how_many_texts_were_truncated(any_encoder: Encoder, recwarn: pytest.WarningsRecorder) -> None:
    expected = any_encoder.encode(["kan", LONG, LONG])
    assert not recwarn
    with pytest.warns(UserWarning, match=r"2 of 3 texts have more than 32 tokens") as told:
        np.testing.assert_array_equal(any_encoder.encode(["kan", LONG, LONG], on_long="warn"), expected)
    assert told[0].filename == __file__
    with pytest.warns(UserWarning, match=r"1 of 2 texts has more than 32 tokens"):
        list(any_encoder.encode_iter(["kan", LONG], on_long="warn"))
    any_encoder.encode(["kan"], on_long="warn")
    assert not recwarn


def test_an_unknown_choice_is_refused(encoder: Encoder) -> None:
    with pytest.raises(DataError, match="on_long must be one of cut, warn, error, not 'truncate'"):
        encoder.encode(["a"], on_long="truncate")  # type: ignore[call-overload]


def test_a_smaller_limit_truncates_earlier(model_folder: Callable[..., Path], tmp_path: Path) -> None:
    words = " ".join(random.Random(0).choices(["kan", "lor", "mist", "rux"], k=60))
    for folder, kind in ((model_folder(), "torch"), (BUILT_IN, "blocks")):
        whole, short = load(folder), load(folder, max_seq_length=8)
        assert (short.max_seq_length, short.runtime) == (8, kind)
        first = " ".join(words.split()[:6]) if kind == "torch" else None
        if first:
            np.testing.assert_allclose(short.encode([words]), whole.encode([first]), atol=1e-6)
        kept = short.reader.read([words]).ids_of(0)
        assert kept[:7] == whole.reader.read([words]).ids_of(0)[:7]
        assert short.fingerprint != whole.fingerprint
        short.cut(1, 16).save(tmp_path / kind)
        again = load(tmp_path / kind)
        assert again.max_seq_length == 8
        assert again.fingerprint == short.cut(1, 16).fingerprint
        with pytest.raises(DataError, match="max_seq_length 9 cannot be used; this model takes a whole number"):
            load(tmp_path / kind, max_seq_length=9)


@pytest.mark.parametrize("limit", [0, -1, 2, 33, 1.5, "8", True])
def test_a_limit_that_makes_no_sense_is_refused(model_folder: Callable[..., Path], limit: Any) -> None:
    with pytest.raises(DataError, match=f"max_seq_length {limit!r} cannot be used; .* from 3 .* to 32"):
        load(model_folder(), max_seq_length=limit)


def test_the_largest_limit_changes_nothing(encoder: Encoder, model_folder: Callable[..., Path]) -> None:
    same = load(model_folder(), max_seq_length=np.int64(32))
    assert same.fingerprint == encoder.fingerprint
    assert json.dumps(same.max_seq_length) == "32"


def test_an_empty_text_of_a_tokenizer_without_special_tokens_counts_as_one(encoder: Any) -> None:
    bare = whole()
    bare.post_processor = None
    reader = replace(encoder.reader, tokenizer=RustTokenizer(bare))
    assert reader.read(["", "kan"]).whole_lengths[0] == 1
