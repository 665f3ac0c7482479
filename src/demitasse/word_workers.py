"""Words looked up in other processes, where a GPU would otherwise wait for one core to read the texts.

numpy and Python share one lock in a process, so threads do not help here. A worker gets texts joined by zero bytes on
its stdin and answers with the packed rows of `WordTokens` on its stdout; it ends when its stdin does.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import IO

import numpy as np
from tokenizers import Tokenizer

from demitasse.rows import Rows
from demitasse.words import WordTokens, word_tokens

_LENGTH = struct.Struct("<QQ")


class WordWorkers:
    """A `Tokens` that gives what `tokens` gives, from several processes at once."""

    def __init__(self, tokens: WordTokens, count: int) -> None:
        self._tokens = tokens
        self._workers = [_Worker(tokens) for _ in range(count)]
        self._turn = threading.Lock()
        self._threads = ThreadPoolExecutor(count, "demitasse-words")

    def batch(self, texts: list[str]) -> Rows:
        """The token ids of each text."""
        share = -(-len(texts) // len(self._workers)) or 1
        parts = [texts[start : start + share] for start in range(0, len(texts), share)]
        with self._turn:  # one question at a time to a worker
            return Rows.joined(list(self._threads.map(self._ask, self._workers, parts)) or [Rows.of([])])

    def prompt_length(self, prompt: str) -> int:
        """How many leading tokens of a text the prompt takes."""
        return self._tokens.prompt_length(prompt)

    def _ask(self, worker: _Worker, texts: list[str]) -> Rows:
        joined = "\0".join(texts)
        # A text with a zero byte in it cannot be told apart from two; a worker that was killed answers nothing.
        rows = worker.ask(joined.encode()) if joined.count("\0") == len(texts) - 1 else None
        return self._tokens.batch(texts) if rows is None else rows


class _Worker:
    def __init__(self, tokens: WordTokens) -> None:
        command = [sys.executable, "-m", "demitasse.word_workers"]
        few = {**os.environ, "RAYON_NUM_THREADS": "4"}  # the tokenizer's own threads, in each of several workers
        self._process = subprocess.Popen(command, env=few, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout
        weakref.finalize(self, _end, self._process)
        self._alive = self._send(json.dumps(tokens.written()).encode())

    def ask(self, data: bytes) -> Rows | None:
        """What the worker makes of `data`; `None` if it is no longer there."""
        self._alive = self._alive and self._send(data)
        rows = _receive_rows(self._from) if self._alive else None
        self._alive = rows is not None
        return rows

    def _send(self, data: bytes) -> bool:
        try:
            self._to.write(_LENGTH.pack(len(data), 0) + data)
            self._to.flush()
        except OSError:
            return False
        return True


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):  # something was still on its way to it
                pipe.close()


def _receive_rows(source: IO[bytes]) -> Rows | None:
    header = source.read(_LENGTH.size)
    if len(header) < _LENGTH.size:
        return None
    count, tokens = _LENGTH.unpack(header)
    data = source.read(8 * count + 4 * tokens)
    if len(data) < 8 * count + 4 * tokens:
        return None
    lengths = np.frombuffer(data, np.int64, count)
    return Rows(np.frombuffer(data, np.int32, tokens, 8 * count), np.cumsum(lengths) - lengths, lengths)


def _receive(source: IO[bytes]) -> bytes | None:
    header = source.read(_LENGTH.size)
    if len(header) < _LENGTH.size:
        return None
    length, _ = _LENGTH.unpack(header)
    data = source.read(length)
    return data if len(data) == length else None


def main() -> None:
    """Answer until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks
    source, target = sys.stdin.buffer, sys.stdout.buffer
    written = _receive(source)
    if written is None:
        return
    told = json.loads(written)
    tokens = word_tokens(Tokenizer.from_str(told["tokenizer"]), told["max_tokens"])
    assert tokens is not None
    while (data := _receive(source)) is not None:
        rows = tokens.batch(data.decode().split("\0"))
        target.write(_LENGTH.pack(len(rows), len(rows.ids)) + rows.lengths.tobytes())
        target.write(rows.ids.tobytes())
        target.flush()


if __name__ == "__main__":
    main()
