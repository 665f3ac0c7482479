from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from demitasse.errors import DataError
from demitasse.host.live_texts import AHEAD, groups

TEXTS = [str(number) for number in range(3 * AHEAD + 5)]


def test_every_text_comes_once_and_in_order() -> None:
    assert [text for group in groups(iter(TEXTS)) for text in group] == TEXTS
    assert [list(group) for group in groups([])] == []


def test_texts_come_out_before_the_next_are_there() -> None:
    """Each text is written only when the one before has come out; a test that waits for more would never end."""
    out = threading.Semaphore(0)

    def producer() -> Iterator[str]:
        for text in TEXTS[:3]:
            yield text
            assert out.acquire(timeout=60)

    received = []
    for group in groups(producer(), wait=0.01):
        for text in group:
            received.append([text])
        out.release()
    assert received == [[text] for text in TEXTS[:3]]


def test_no_more_than_a_few_thousand_are_read_ahead() -> None:
    read = []
    texts = groups(read.append(text) or text for text in TEXTS)
    next(next(texts))
    assert 1 <= len(read) <= AHEAD + 1


def test_what_comes_before_an_error_comes_out() -> None:
    def broken() -> Iterator[str]:
        yield "kan"
        raise DataError("line 2 is not UTF-8")

    received = []
    with pytest.raises(DataError, match="line 2"):
        for group in groups(broken()):
            received += list(group)
    assert received == ["kan"]
