"""Word caches in other processes, where a GPU would otherwise wait for one core to tokenize the texts.

numpy and Python share one lock in a process, so threads do not help here. A process reads texts, joined by zero bytes,
from a file and writes their packed tokens to the same file. Only the sizes go through its stdin and stdout: a pipe
takes 64 KiB, and each time it is full or empty this process would wait for the lock, which the thread that feeds the
GPU hardly ever releases. A process ends when its stdin does.

They belong to the process that started them. A fork of it has the same pipes and files, where two would read each
other's answers, so it never touches them and reads its texts itself.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import weakref
from contextlib import suppress
from dataclasses import replace
from typing import IO

import numpy as np
from tokenizers import Tokenizer

from demitasse.encoding.packed_tokens import PackedTokens
from demitasse.encoding.reader import Reader
from demitasse.encoding.word_cache import WordCache, word_cache_for
from demitasse.host.machine import cores

# The number of the question, the number of texts, and their bytes (to a process) or their tokens (from it).
_SIZES = struct.Struct("<QQQ")
_READY = b"!"
MAX_PROCESSES = 8  # and at most half as many as there are cores


def helped(reader: Reader) -> Reader:
    """`reader`, with other processes doing the tokenizing where there are cores to spare."""
    processes = min(MAX_PROCESSES, cores() // 2)
    if not isinstance(reader.tokenizer, WordCache) or processes < 1:
        return reader
    return replace(reader, tokenizer=WordProcesses(reader.tokenizer, processes, wait=False))


class WordProcesses:
    """A `BatchTokenizer` that gives what `words` gives, from several processes at once.

    They take a while to start. Without `wait`, texts that come meanwhile are tokenized here.
    """

    def __init__(self, words: WordCache, count: int, *, wait: bool = True) -> None:
        self._words = words
        self._wait = wait
        self._processes = [_WordProcess(words) for _ in range(count)]
        self._turn = threading.Lock()
        self._owner = os.getpid()

    def tokenize(self, texts: list[str]) -> PackedTokens:
        """The token ids of each text."""
        if os.getpid() != self._owner:
            return self._words.tokenize(texts)
        able = [process for process in self._processes if self._wait or process.ready]
        if not able:
            return self._words.tokenize(texts)
        share = -(-len(texts) // len(able)) or 1
        parts = [texts[start : start + share] for start in range(0, len(texts), share)]
        answers = self._answers(able, ["\0".join(part).encode() for part in parts], [len(part) for part in parts])
        # This process does the part of one that was killed, or that could not be asked.
        packed = [
            self._words.tokenize(part) if answer is None else answer
            for part, answer in zip(parts, answers, strict=True)
        ]
        return PackedTokens.joined(packed or [PackedTokens.of([])])

    def _answers(self, able: list[_WordProcess], joined: list[bytes], counts: list[int]) -> list[PackedTokens | None]:
        """What `able` answer about texts that were joined; `None` where one cannot be asked or has ended."""
        with self._turn:  # one question at a time per process
            try:
                asked = [process.ask(data, count) for process, data, count in zip(able, joined, counts, strict=False)]
                return [able[index].answer() if sent else None for index, sent in enumerate(asked)]
            except BaseException:  # Ctrl-C too: an answer that nobody waited for must not be taken for the next one
                for process in self._processes:
                    process.end()
                raise

    def prompt_length(self, prompt: str) -> int:
        """How many leading tokens of a text the prompt takes."""
        return self._words.prompt_length(prompt)

    @property
    def vocabulary_size(self) -> int:
        """How many token ids there are."""
        return self._words.vocabulary_size

    def vocabulary(self) -> dict[str, int]:
        """Every token with its id."""
        return self._words.vocabulary()

    def limited(self, max_tokens: int) -> WordProcesses:
        """The same number of processes, truncating at `max_tokens`."""
        return WordProcesses(self._words.limited(max_tokens), len(self._processes), wait=self._wait)


class _WordProcess:
    """Another process with a cache like `words`, and the file it shares with this one."""

    def __init__(self, words: WordCache) -> None:
        self._file, name, inherited = _shared_file()
        command = [sys.executable, "-m", "demitasse.encoding.word_processes", name]
        environment = {**os.environ, "RAYON_NUM_THREADS": "4"}  # the tokenizer starts threads in each process
        self._process = subprocess.Popen(  # noqa: S603
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=inherited
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout
        weakref.finalize(self, _end, self._process, self._file, os.getpid())
        self._asked, self._count = 0, 0
        self._alive = self._send(json.dumps(words.settings()).encode(), 1)
        self._said: list[bytes] = []
        # It must have read the tokenizer from the file before texts replace it.
        self._starting = threading.Thread(target=_first_byte, args=(self._from.fileno(), self._said), daemon=True)
        self._starting.start()

    @property
    def ready(self) -> bool:
        """Whether it has started, or failed to: asking it need not wait."""
        return not self._starting.is_alive()

    def ask(self, data: bytes, count: int) -> bool:
        """Send `count` texts, joined by zero bytes; false if the process has ended, or cannot be asked about them."""
        self._starting.join()
        self._alive = self._alive and self._said == [_READY]
        # A text with a zero byte in it would look like two.
        return self._alive and data.count(0) == count - 1 and self._send(data, count)

    def answer(self) -> PackedTokens | None:
        """The packed tokens of the texts it was asked about; `None` if the process has ended, or answers oddly."""
        sizes = self._from.read(_SIZES.size)
        if len(sizes) == _SIZES.size:
            number, count, tokens = _SIZES.unpack(sizes)
            if (number, count) == (self._asked, self._count):
                packed = self._read_answer(count, tokens)
                if packed is not None:
                    return packed
        self.end()
        return None

    def end(self) -> None:
        """Never ask this process again."""
        self._alive = False
        self._process.kill()

    def _read_answer(self, count: int, tokens: int) -> PackedTokens | None:
        length = 16 * count + 4 * tokens
        try:
            if os.fstat(self._file.fileno()).st_size < length:
                return None
            data = _read(self._file, length)
        except OSError:
            return None
        lengths, whole = np.frombuffer(data, np.int64, 2 * count).reshape(2, count)
        ids = np.frombuffer(data, np.int32, tokens, 16 * count)
        if lengths.min(initial=0) < 0 or int(lengths.sum()) != tokens:
            return None
        return PackedTokens(ids, np.cumsum(lengths) - lengths, lengths, whole)

    def _send(self, data: bytes, count: int) -> bool:
        self._asked, self._count = self._asked + 1, count
        try:
            _write(self._file, data)
            self._to.write(_SIZES.pack(self._asked, count, len(data)))
            self._to.flush()
        except OSError:  # the process has ended, or the disk is full
            self._alive = False
        else:
            self._alive = True
        return self._alive


def _first_byte(handle: int, said: list[bytes]) -> None:
    # Past the buffer, whose lock a fork would inherit as it is.
    with suppress(OSError):  # it was ended before it said anything
        said.append(os.read(handle, 1))


def _shared_file() -> tuple[IO[bytes], str, tuple[int, ...]]:
    """A temporary file, what the other process is told to open, and the handles it inherits."""
    if os.name == "nt":  # where handles are not inherited by number; removed by `_end`
        named = tempfile.NamedTemporaryFile(prefix="demitasse-words-", buffering=0, delete=False)  # noqa: SIM115
        return named, named.name, ()
    # Without a name, so that nothing is left of it when this process is killed.
    file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
    return file, str(file.fileno()), (file.fileno(),)


def _write(file: IO[bytes], data: bytes) -> None:
    file.seek(0)
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def _read(file: IO[bytes], length: int) -> bytes:
    file.seek(0)
    data = file.read(length)
    while len(data) < length:
        more = file.read(length - len(data))
        if not more:
            raise OSError("the file is shorter than announced")
        data += more
    return data


def _end(process: subprocess.Popen[bytes], file: IO[bytes], owner: int) -> None:
    if os.getpid() == owner:
        process.kill()
        process.wait()
    for opened in (process.stdin, process.stdout, file):
        if opened is not None:
            with suppress(OSError):  # something was still in the pipe
                opened.close()
    if os.getpid() == owner and isinstance(file.name, str):  # last: Windows deletes no open file
        with suppress(OSError):
            os.unlink(file.name)


def _question(source: IO[bytes], file: IO[bytes]) -> tuple[int, str] | None:
    sizes = source.read(_SIZES.size)
    if len(sizes) < _SIZES.size:
        return None
    number, _, length = _SIZES.unpack(sizes)
    return number, _read(file, length).decode()


def main() -> None:
    """Answer until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    source, target = sys.stdin.buffer, sys.stdout.buffer
    name = sys.argv[1]
    # On a full disk it ends, and the process that started this one does the work.
    with suppress(OSError), open(int(name) if name.isdigit() else name, "r+b", buffering=0) as file:
        first = _question(source, file)
        if first is None:
            return
        settings = json.loads(first[1])
        words = word_cache_for(Tokenizer.from_str(settings["tokenizer"]), settings["max_tokens"])
        assert words is not None
        target.write(_READY)
        target.flush()
        while (question := _question(source, file)) is not None:
            number, joined = question
            packed = words.tokenize(joined.split("\0"))
            _write(file, packed.lengths.tobytes() + packed.whole_lengths.tobytes() + packed.ids.tobytes())
            target.write(_SIZES.pack(number, len(packed), len(packed.ids)))
            target.flush()


if __name__ == "__main__":
    main()
