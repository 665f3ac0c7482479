"""Text files, read line by line: the one reader of lines for texts to encode and for rows to train on."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from demitasse.errors import DataError, reason


def read_lines(source: Path, *, name: str | None = None, keep_ends: bool = False) -> Iterator[str]:
    """The lines of a UTF-8 file (.gz too; - is stdin), read as they are asked for; a wrong name is refused at once.

    A byte order mark at the start is left out, and line ends unless `keep_ends` is set (a field of a CSV file may go
    over several lines). Bytes that are not UTF-8 are refused with the number of the line, in a sentence that calls the
    file `name`.
    """
    if str(source) == "-":
        return _decoded(nullcontext(sys.stdin.buffer), source, name or "stdin", keep_ends=keep_ends)
    try:
        # Closed by _decoded.
        opened = gzip.open(source) if source.suffix.lower() == ".gz" else source.open("rb")  # noqa: SIM115
    except OSError as problem:
        raise _unreadable(source, problem) from problem
    return _decoded(opened, source, name or str(source), keep_ends=keep_ends)


def _decoded(
    opened: AbstractContextManager[Iterable[bytes]], source: Path, name: str, *, keep_ends: bool
) -> Iterator[str]:
    number = 0
    try:
        with opened as lines:
            # One line at a time, so that an error can name the line.
            for number, line in enumerate(lines, 1):
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                yield text if keep_ends else text.rstrip("\r\n")
    except UnicodeDecodeError as problem:
        raise DataError(f"{name} line {number} is not UTF-8 ({problem.reason}); save the file as UTF-8") from problem
    except (EOFError, zlib.error) as problem:
        raise DataError(f"{source} is broken after line {number} ({reason(problem)}); copy it again") from problem
    except OSError as problem:
        raise _unreadable(source, problem) from problem


def _unreadable(source: Path, problem: OSError) -> DataError:
    why = problem.strerror or reason(problem)
    return DataError(f"cannot read {str(source)!r} ({why}); give a readable text file, one text or row per line")
