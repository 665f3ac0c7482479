from __future__ import annotations

import gc

import pytest
from tokenizers import Tokenizer

from demitasse.encoding.block_files import TOKENIZER
from demitasse.encoding.word_cache import WordCache, word_cache_for
from demitasse.encoding.word_processes import WordProcesses
from demitasse.host.bundled import BUILT_IN, corpus


@pytest.fixture(scope="module")
def alone() -> WordCache:
    tokens = word_cache_for(Tokenizer.from_file(str(BUILT_IN / TOKENIZER)), 16)
    assert tokens is not None
    return tokens


@pytest.mark.parametrize("texts", [corpus(), [], ["a"], ["a\0b", "c"] * 30, ["é漢" * 50, ""] * 40])
def test_workers_give_the_same_rows(alone: WordCache, texts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    workers = WordProcesses(alone, 2)
    expected = alone.tokenize(texts) if texts else None
    if not any("\0" in text for text in texts):  # such texts are read here; all others by the workers
        monkeypatch.setattr(alone, "batch", None)
    for _ in range(2):  # they remember, too
        rows = workers.tokenize(texts)
        assert len(rows) == len(texts)
        for index in range(len(texts)):
            assert expected is not None
            assert rows.row(index) == expected.row(index)


def test_the_tokens_of_a_prompt(alone: WordCache) -> None:
    assert WordProcesses(alone, 1).prompt_length("a b") == 3


def test_a_worker_that_dies_is_not_missed(alone: WordCache) -> None:
    workers = WordProcesses(alone, 2)
    workers._workers[0]._process.kill()
    workers._workers[0]._process.wait()
    for _ in range(2):
        rows = workers.tokenize(corpus())
        assert rows.row(0) == alone.tokenize(corpus()).row(0)
        assert rows.row(len(corpus()) - 1) == alone.tokenize(corpus()).row(len(corpus()) - 1)


def test_workers_end_with_whoever_asked_for_them(alone: WordCache) -> None:
    workers = WordProcesses(alone, 2)
    processes = [worker._process for worker in workers._workers]
    workers.tokenize(corpus())
    del workers
    gc.collect()
    assert all(process.poll() is not None for process in processes)
