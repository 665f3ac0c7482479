from __future__ import annotations

import gc
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from demitasse.encoding.block_files import TOKENIZER
from demitasse.encoding.word_cache import WordCache, word_cache_for
from demitasse.encoding.word_processes import _SIZES, WordProcesses
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


def asking(processes: WordProcesses, words: WordCache, texts: list[str]) -> None:
    packed, expected = processes.tokenize(texts), words.tokenize(texts)
    assert [packed.ids_of(index) for index in range(len(texts))] == [
        expected.ids_of(index) for index in range(len(texts))
    ]


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_answer_that_nobody_waited_for_is_never_taken_for_the_next_one(
    error: type[BaseException], words: WordCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes = WordProcesses(words, 2)
    asking(processes, words, corpus()[:60])
    with monkeypatch.context() as interrupted:
        interrupted.setattr(processes._processes[1], "answer", lambda: (_ for _ in ()).throw(error()))
        with pytest.raises(error):
            processes.tokenize(corpus()[:60])
    for start in (60, 120):
        asking(processes, words, corpus()[start : start + 60])


def test_texts_that_cannot_be_sent_leave_nothing_behind(words: WordCache) -> None:
    processes = WordProcesses(words, 2)
    with pytest.raises(UnicodeEncodeError):  # `checked` replaces these before they get here
        processes.tokenize([*corpus()[:60], "\ud800"])
    asking(processes, words, corpus()[60:120])


ODD_ANSWERS = {
    "another question": lambda number, count, tokens: (number - 1, count, tokens),
    "another number of texts": lambda number, count, tokens: (number, count - 1, tokens),
    "more tokens than there are": lambda number, count, tokens: (number, count, tokens + 1),
    "more than the file holds": lambda number, count, tokens: (number, count, 1 << 40),
}


@pytest.mark.parametrize("name", ODD_ANSWERS)
def test_an_odd_answer_is_not_used(name: str, words: WordCache, monkeypatch: pytest.MonkeyPatch) -> None:
    processes = WordProcesses(words, 1)
    asking(processes, words, corpus()[:60])
    process = processes._processes[0]
    real = process._from

    class Odd:
        def read(self, size: int) -> bytes:
            return _SIZES.pack(*ODD_ANSWERS[name](*_SIZES.unpack(real.read(size))))

    monkeypatch.setattr(process, "_from", Odd())
    asking(processes, words, corpus()[60:120])
    assert not process._alive


def test_threads_may_ask_at_once(words: WordCache) -> None:
    processes = WordProcesses(words, 2)
    parts = [corpus()[start : start + 40] for start in range(0, 240, 20)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda part: asking(processes, words, part), parts))
