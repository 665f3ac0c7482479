"""Texts that another program is still writing: taken in groups, so that nothing waits for texts that have yet to come.

Another thread reads them. Where they come faster than they are used, they are one group, and nothing is lost by it.
"""

from __future__ import annotations

import os
import stat
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Generic, TypeVar

Text = TypeVar("Text")  # a string, or a row with one
WAIT = 0.25  # seconds that the first text of a group waits for more
PAUSE = 0.02  # seconds without a text that end a group which has waited that long
AHEAD = 8192  # texts read in advance


def groups(texts: Iterable[Text], wait: float = WAIT) -> Iterator[Iterator[Text]]:
    """Runs of `texts`, each to be used up before the next: one ends when no more have come for a while.

    >>> [list(group) for group in groups(["a cup", "a pot"])]
    [['a cup', 'a pot']]
    """
    source = _Ahead(texts)
    while source.more():
        yield source.group(wait)


def is_live(source: Path) -> bool:
    """Whether `source` (- is stdin) may be written while it is read: a pipe, or what is typed."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode if str(source) == "-" else source.stat().st_mode
    except OSError:  # no such file, or something in memory
        return False
    return not stat.S_ISREG(mode)


class _Ahead(Generic[Text]):
    """Texts read in advance by a thread, and when to stop waiting for the next."""

    def __init__(self, texts: Iterable[Text]) -> None:
        self._ready: deque[Text] = deque()
        self._problem: BaseException | None = None
        self._ended = False
        self._change = threading.Condition()
        self._waiting = False  # whether the other side waits: to notify it for every text would cost more than reading
        # A daemon: it may be waiting for a text when the program ends.
        threading.Thread(target=self._read, args=(texts,), name="demitasse-texts", daemon=True).start()

    def more(self) -> bool:
        """Wait for a text; false if there is none left."""
        self._wait(None)
        if self._problem is not None and not self._ready:
            raise self._problem
        return bool(self._ready)

    def group(self, wait: float) -> Iterator[Text]:
        """The texts that are there, and those that come soon."""
        ready, since = self._ready, time.monotonic()
        while ready:
            yield ready.popleft()
            if ready:
                continue
            self._wait(max(PAUSE, since + wait - time.monotonic()))
            if not ready:
                return

    def _wait(self, seconds: float | None) -> None:
        with self._change:
            self._waiting = True
            self._change.notify()
            self._change.wait_for(lambda: self._ready or self._ended, seconds)
            self._waiting = False

    def _read(self, texts: Iterable[Text]) -> None:
        try:
            for text in texts:
                self._ready.append(text)
                if self._waiting or len(self._ready) >= AHEAD:
                    with self._change:
                        self._change.notify()
                        # When there are enough, until the other side has used them all and waits for more.
                        self._change.wait_for(lambda: len(self._ready) < AHEAD or self._waiting)
        except BaseException as problem:
            self._problem = problem
        finally:
            with self._change:
                self._ended = True
                self._change.notify()
