"""Texts read from a file, one a line."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from demitasse.errors import DataError


def read_lines(source: Path) -> Iterator[str]:
    """The lines of a file (.gz too; - is stdin), read as they are asked for; a wrong name is known at once."""
    if str(source) == "-":
        return _decoded(nullcontext(sys.stdin.buffer), source)
    try:
        opened = gzip.open(source) if source.suffix == ".gz" else source.open("rb")  # noqa: SIM115 - closed by _decoded
    except OSError as problem:
        raise DataError(
            f"cannot read {str(source)!r} ({problem.strerror}); give a file with a text a line"
        ) from problem
    return _decoded(opened, source)


def _decoded(opened: AbstractContextManager[Iterable[bytes]], source: Path) -> Iterator[str]:
    try:
        with opened as lines:
            for line in lines:
                yield line.decode("utf-8", "replace").rstrip("\r\n")
    except (OSError, EOFError) as problem:
        raise DataError(f"cannot read {str(source)!r} to its end ({problem})") from problem
