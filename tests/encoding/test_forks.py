"""Encoders after a fork, at whatever moment it comes: the vectors of the parent, and no waiting for ever."""

from __future__ import annotations

import gc
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from forks import in_fork
from soak_results import told
from tokenizers import Tokenizer

from demitasse import Encoder, load
from demitasse.encoding.block_encoder import BlockEncoder
from demitasse.encoding.block_files import TOKENIZER
from demitasse.encoding.reader import RustTokenizer
from demitasse.encoding.word_cache import WordCache, word_cache_for
from demitasse.encoding.word_processes import WordProcesses
from demitasse.host.bundled import BUILT_IN, corpus

pytestmark = pytest.mark.posix
TEXTS = corpus()[:60]


@pytest.fixture(scope="module", params=["blocks", "torch"])
def any_encoder(request: pytest.FixtureRequest, encoder: Encoder) -> Encoder:
    return load(max_seq_length=40, threads=2).cut(2, 64) if request.param == "blocks" else encoder.cut(2, 16)


def test_a_fork_encodes_with_the_encoder_it_was_given(any_encoder: Encoder) -> None:
    expected = any_encoder.encode(TEXTS)
    np.testing.assert_array_equal(in_fork(lambda: any_encoder.encode(TEXTS)), expected)
    np.testing.assert_array_equal(
        in_fork(lambda: in_fork(lambda: any_encoder.cut(1).encode(TEXTS))), any_encoder.cut(1).encode(TEXTS)
    )


def words() -> WordCache:
    cache = word_cache_for(Tokenizer.from_file(str(BUILT_IN / TOKENIZER)), 64)
    assert cache is not None
    return cache


def ids(tokenizer: Any, texts: list[str]) -> list[list[int]]:
    packed = tokenizer.tokenize(texts)
    return [packed.ids_of(index) for index in range(len(texts))]


def test_a_fork_while_words_are_being_learnt_neither_waits_nor_sees_half_of_them() -> None:
    cache, expected = words(), ids(words(), TEXTS)
    memory = cache._memory
    with memory.lock:  # as another thread holds it while it learns
        memory.starts = np.zeros(7, np.int64)  # half of what belongs together
        assert in_fork(lambda: ids(cache, TEXTS)) == expected


def test_a_fork_while_a_block_is_being_opened_does_not_wait() -> None:
    encoder = load().cut(1, 32)
    assert isinstance(encoder, BlockEncoder)
    expected = load().cut(1, 32).encode(TEXTS)
    held = encoder.blocks._locks.setdefault(os.getpid(), threading.Lock())
    with held:
        np.testing.assert_array_equal(in_fork(lambda: encoder.encode(TEXTS)), expected)


@pytest.mark.parametrize("parallel", ["true", "1", None])
def test_a_tokenizer_with_threads_works_after_a_fork(parallel: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if parallel is None:
        monkeypatch.delenv("TOKENIZERS_PARALLELISM", raising=False)
    else:
        monkeypatch.setenv("TOKENIZERS_PARALLELISM", parallel)
    tokenizer = RustTokenizer(Tokenizer.from_file(str(BUILT_IN / TOKENIZER)))
    expected = ids(tokenizer, corpus())
    assert in_fork(lambda: ids(tokenizer, corpus())) == expected
    assert os.environ.get("TOKENIZERS_PARALLELISM") == parallel  # here


def test_a_fork_does_not_touch_the_processes_of_its_parent() -> None:
    cache = words()
    held = [WordProcesses(cache, 2)]
    expected = ids(cache, corpus())
    assert ids(held[0], corpus()) == expected
    with held[0]._turn:  # as another thread holds it while it waits for an answer
        assert in_fork(lambda: ids(held[0], corpus())) == expected
    started = [process._process for process in held[0]._processes]

    def forget() -> None:
        """As in a fork that lets go of its encoder, or ends as Python programs do."""
        held.clear()
        gc.collect()

    in_fork(forget)
    assert all(process.poll() is None for process in started)
    assert ids(held[0], corpus()[::-1]) == expected[::-1]
    forget()
    assert all(process.poll() is not None for process in started)


@pytest.mark.soak
def test_forks_at_any_moment_give_the_vectors_of_their_parent() -> None:
    """A parent whose threads encode new words all the time is forked at random moments."""
    encoder = load().cut(2, 64)
    expected = encoder.encode(TEXTS)
    random = np.random.default_rng(0)
    stop, done = threading.Event(), [0]

    def encode_new_words() -> None:
        while not stop.is_set():
            texts = ["".join(map(chr, random.integers(97, 123, 9))) + " cup" for _ in range(300)]
            encoder.encode(texts)
            done[0] += len(texts)

    with ThreadPoolExecutor(2) as threads:
        for _ in range(2):
            threads.submit(encode_new_words)
        try:
            begun, forks = time.monotonic(), 0
            while time.monotonic() - begun < 60:
                np.testing.assert_array_equal(in_fork(lambda: encoder.encode(TEXTS)), expected)
                forks += 1
        finally:
            stop.set()
    told("forks beside threads that encode", forks=forks, **{"new texts": done[0]})
