"""Text files, read line by line or in pieces: the one reader of text for texts to encode and for rows to train on.

What is not UTF-8 text is refused with what it looks like, because its bytes would be encoded without a word.
"""

from __future__ import annotations

import codecs
import gzip
import io
import sys
import weakref
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import BinaryIO

from demitasse.errors import DataError, file_reason, reason

_File = gzip.GzipFile | BinaryIO
MAX_LINE = 64 << 20  # bytes; a longer line is no text, and would fill the memory
_PIECE = 64 << 10  # bytes
_AS_UTF8 = "save it as UTF-8"
_UNPACK = "unpack it first"
# How files start that are not text, what they are, and what to do. The longest come first.
_SIGNATURES = (
    (b"\xff\xfe\x00\x00", "UTF-32 text", _AS_UTF8),
    (b"\x00\x00\xfe\xff", "UTF-32 text", _AS_UTF8),
    (b"\xff\xfe", "UTF-16 text", _AS_UTF8),
    (b"\xfe\xff", "UTF-16 text", _AS_UTF8),
    (b"\x1f\x8b", "a gzip file", "give it a name that ends in .gz, or unpack it first"),
    (b"BZh91AY&SY", "a bzip2 file", _UNPACK),
    (b"\xfd7zXZ\x00", "an xz file", _UNPACK),
    (b"\x28\xb5\x2f\xfd", "a zstd file", _UNPACK),
    (b"PK\x03\x04", "a zip archive, as .xlsx and .npz files are", "unpack it, or save the table as .csv"),
    (b"PAR1\x15", "a Parquet file", "give it a name that ends in .parquet"),
    (b"ARROW1\x00\x00", "an Arrow file", "save it as .parquet"),
    (b"\x93NUMPY", "a numpy array", "give texts, not vectors"),
    (b"%PDF-", "a PDF", "save its text as UTF-8"),
)


def read_lines(source: Path, *, name: str | None = None, keep_ends: bool = False) -> Iterator[str]:
    """The lines of a UTF-8 file (.gz too; - is stdin), read as they are asked for; a wrong name is refused at once.

    A byte order mark at the start is left out, and line ends unless `keep_ends` is set (a field of a CSV file may go
    over several lines). What is not UTF-8 text is refused with the number of the line, in a sentence that calls the
    file `name`.
    """
    if str(source) == "-":
        return _lines(_stdin(), source, name or "stdin", keep_ends=keep_ends)
    file = _opened(source)
    return _closing(file, _lines(file, source, name or str(source), keep_ends=keep_ends))


def read_pieces(source: Path, *, name: str | None = None) -> Iterator[str]:
    """The text of a UTF-8 file (.gz too) in pieces that end anywhere, for files whose lines may be very long."""
    file = _opened(source)
    return _closing(file, _pieces(file, source, name or str(source)))


def _closing(file: _File, texts: Iterator[str]) -> Iterator[str]:
    """`texts`, which are read from `file`: it is closed when they are let go, even if none was asked for."""
    weakref.finalize(texts, file.close).atexit = False  # another thread may be waiting for a line then
    return texts


def _opened(source: Path) -> _File:
    try:
        return gzip.open(source) if source.suffix.lower() == ".gz" else source.open("rb")
    except (OSError, ValueError) as problem:  # some strings cannot be names of files
        raise _unreadable(source, problem) from problem


def _stdin() -> AbstractContextManager[_File]:
    """Standard input with a buffer of its own: that of `sys.stdin` cannot be closed while a thread waits for a line."""
    try:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    except io.UnsupportedOperation:  # it was replaced by something in memory
        return nullcontext(sys.stdin.buffer)


def _lines(opened: AbstractContextManager[_File], source: Path, name: str, *, keep_ends: bool) -> Iterator[str]:
    number = 0
    with opened as file, _one_sentence(source, name, lambda: number):
        # One line at a time, so that an error can name the line.
        for number, line in enumerate(iter(partial(file.readline, MAX_LINE + 1), b""), 1):
            check_text(line, name, number, first=number == 1)
            if len(line) > MAX_LINE:
                limit = f"{MAX_LINE >> 20} MB"
                raise DataError(f"{name} line {number} is longer than {limit}; give one text or row per line")
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            yield text if keep_ends else text.rstrip("\r\n")


def _pieces(opened: AbstractContextManager[_File], source: Path, name: str) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    line = 1
    with opened as file, _one_sentence(source, name, lambda: line):
        for number, piece in enumerate(iter(partial(file.read, _PIECE), b"")):
            check_text(piece, name, line, first=not number)
            yield decoder.decode(piece)
            line += piece.count(b"\n")
        decoder.decode(b"", final=True)


def check_text(read: bytes, name: str, line: int, *, first: bool) -> None:
    """Refuse what cannot be text; `read` begins in this line, and the file with it if it is the `first`."""
    if first:
        for start, kind, cure in _SIGNATURES:
            if read.startswith(start):
                raise DataError(f"{name} is not UTF-8 text but looks like {kind}; {cure}")
    zero = read.find(b"\0")
    if zero >= 0:
        line += read.count(b"\n", 0, zero)
        raise DataError(f"{name} line {line} has a zero byte, as binary files and UTF-16 have; give UTF-8 text")


@contextmanager
def _one_sentence(source: Path, name: str, line: Callable[[], int]) -> Iterator[None]:
    """Errors of reading, each as one sentence that names the line."""
    try:
        yield
    except UnicodeDecodeError as problem:
        cure = "save the file as UTF-8 (if it is Latin-1: iconv -f latin1 -t utf-8)"
        raise DataError(f"{name} line {line()} is not UTF-8 ({problem.reason}); {cure}") from problem
    except (EOFError, zlib.error) as problem:
        raise DataError(f"{source} is broken after line {line()} ({reason(problem)}); copy it again") from problem
    except OSError as problem:
        raise _unreadable(source, problem) from problem


def _unreadable(source: Path, problem: Exception) -> DataError:
    why = file_reason(problem)
    return DataError(f"cannot read {str(source)!r} ({why}); give a readable text file, one text or row per line")
