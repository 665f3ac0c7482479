"""What a GPU adds to encoding: windows read ahead in another thread and by other processes. Here on the CPU."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest
import zoo

from demitasse import load
from demitasse.encoding import word_processes
from demitasse.encoding.batching import windows
from demitasse.encoding.text_checks import checked
from demitasse.host.bundled import corpus
from demitasse.torch_model.torch_encoder import TorchEncoder

TEXTS = zoo.sentences(100, seed=3)


def eights(texts: list[str]) -> Iterator[list[str]]:
    """Windows of eight texts, so that a hundred are many."""
    return windows(checked(texts), 8)


@pytest.mark.parametrize("ahead", [1, 3])
def test_reading_ahead_gives_the_same_tokens_in_the_same_order(encoder: TorchEncoder, ahead: int) -> None:
    expected = [window.ids_of(i) for window in encoder._token_windows(eights(TEXTS), "", 0) for i in range(len(window))]
    tokens = [
        window.ids_of(i) for window in encoder._token_windows(eights(TEXTS), "", ahead) for i in range(len(window))
    ]
    assert len(expected) == len(TEXTS)
    assert tokens == expected


def test_windows_are_read_ahead_by_another_thread_and_never_further(encoder: TorchEncoder) -> None:
    read: list[int] = []  # windows read so far
    readers: set[int] = set()

    class Counting:
        def read(self, texts: list[str], prompt: str = "") -> object:
            read.append(len(texts))
            readers.add(threading.get_ident())
            return encoder.reader.read(texts, prompt)

    counted = replace(encoder, reader=Counting())  # type: ignore[arg-type]
    counted.__dict__["_busy_reader"] = counted.reader  # no further processes
    for number, _ in enumerate(counted._token_windows(eights(TEXTS), "", 2), 1):
        assert len(read) <= number + 2
    assert sum(read) == len(TEXTS)
    assert threading.get_ident() not in readers


def test_an_error_while_reading_ahead_reaches_the_caller(encoder: TorchEncoder) -> None:
    with pytest.raises(ValueError, match="text 40 is None"):
        list(encoder._token_windows(eights([*TEXTS[:40], None]), "", 1))  # type: ignore[list-item]


def test_much_text_is_read_by_other_processes(encoder: TorchEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_processes, "cores", lambda: 4)  # two of them to spare
    busy = replace(encoder, reader=load().reader)  # of the BERT family, whose words can be looked up one by one
    texts = corpus()[:100]
    tokens = [window.ids_of(i) for window in busy._token_windows(eights(texts), "", 1) for i in range(len(window))]
    assert type(busy._busy_reader.tokenizer).__name__ == "WordProcesses"
    expected = busy.reader.read(texts)
    assert tokens == [expected.ids_of(index) for index in range(len(texts))]
