from __future__ import annotations

import gc
import tempfile
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from demitasse.encoding.block_files import TOKENIZER
from demitasse.encoding.word_cache import WordCache, word_cache_for
from demitasse.encoding.word_processes import WordProcesses
from demitasse.host.bundled import BUILT_IN, corpus


@pytest.fixture(scope="module")
def words() -> WordCache:
    cache = word_cache_for(Tokenizer.from_file(str(BUILT_IN / TOKENIZER)), 16)
    assert cache is not None
    return cache


@pytest.mark.parametrize("texts", [corpus(), [], ["a"], ["a\0b", "c"] * 30, ["é漢" * 50, ""] * 40])
def test_processes_give_the_same_token_ids(words: WordCache, texts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    processes = WordProcesses(words, 2)
    expected = words.tokenize(texts) if texts else None
    if not any("\0" in text for text in texts):  # such texts are tokenized here, all others by the processes
        monkeypatch.setattr(words, "tokenize", None)
    for _ in range(2):  # they have a cache, too
        packed = processes.tokenize(texts)
        assert len(packed) == len(texts)
        for index in range(len(texts)):
            assert expected is not None
            assert packed.ids_of(index) == expected.ids_of(index)


def test_the_tokens_of_a_prompt(words: WordCache) -> None:
    assert WordProcesses(words, 1).prompt_length("a b") == 3


def test_a_process_that_dies_is_replaced_by_this_one(words: WordCache) -> None:
    processes = WordProcesses(words, 2)
    processes._processes[0]._process.kill()
    processes._processes[0]._process.wait()
    for _ in range(2):
        packed = processes.tokenize(corpus())
        assert packed.ids_of(0) == words.tokenize(corpus()).ids_of(0)
        assert packed.ids_of(len(corpus()) - 1) == words.tokenize(corpus()).ids_of(len(corpus()) - 1)


def test_processes_end_with_the_object_that_started_them(words: WordCache) -> None:
    processes = WordProcesses(words, 2)
    started = [process._process for process in processes._processes]
    processes.tokenize(corpus())
    del processes
    gc.collect()
    assert all(process.poll() is not None for process in started)


@pytest.mark.posix
def test_nothing_is_left_of_processes_that_are_killed(
    words: WordCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    processes = WordProcesses(words, 1)
    assert len(processes.tokenize(corpus())) == len(corpus())
    assert list(tmp_path.iterdir()) == []  # while they are alive, too
