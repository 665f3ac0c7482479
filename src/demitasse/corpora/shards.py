"""Shards: the pieces of a corpus that are encoded one by one, each into a file of its own.

Where shards begin depends on the sources and on how many rows are wanted, and on nothing else. Of a file of lines every
shard knows its bytes, so that it can be read alone; of a Parquet file its rows, which are those of whole row groups
unless these are large.
"""

from __future__ import annotations

import csv
import gzip
import importlib
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from demitasse.corpora.sources import DELIMITERS, PARQUET_FORMAT, Source
from demitasse.errors import DataError, reason

SHARD_BYTES = 64 << 20  # of texts, so that long ones do not fill the memory
_CHUNK = 8 << 20  # bytes
_NEWLINE = 10
_ROWS = 1 << 16  # of a table that are looked at together


@dataclass(frozen=True)
class Shard:
    """Rows of one source that follow one another."""

    number: int
    source: int  # its place among the sources
    first: int  # the row of the source it begins with
    rows: int
    before: int  # rows of all shards before this one
    start: int = 0  # the bytes of a file of lines, unpacked
    end: int = 0

    @property
    def name(self) -> str:
        """The name of its file, without a suffix."""
        return f"part-{self.number:06d}"


def split(sources: Sequence[Source], shard_rows: int) -> list[Shard]:
    """All shards of the sources, in order; an empty source has none."""
    shards: list[Shard] = []
    before = 0
    for place, source in enumerate(sources):
        parts = _parquet_parts(source, shard_rows) if source.format == PARQUET_FORMAT else _parts(source, shard_rows)
        for first, rows, start, end in parts:
            shards.append(Shard(len(shards), place, first, rows, before, start, end))
            before += rows
    return shards


def first_shard(source: Source, rows: int) -> Shard | None:
    """The first rows of a file of lines, without a look at the others; None if it has no rows."""
    part = next(_parts(source, rows), None)
    return None if part is None else Shard(0, 0, part[0], part[1], 0, part[2], part[3])


Part = tuple[int, int, int, int]  # first row, rows, first byte, end


def opened(source: Source) -> BinaryIO:
    """The bytes of a file of lines."""
    return gzip.open(source.path) if source.packed else Path(source.path).open("rb")  # type: ignore[return-value]


def _parts(source: Source, shard_rows: int) -> Iterator[Part]:
    """Where to cut a file of lines: after so many rows, or bytes."""
    first = rows = start = end = 0
    header = source.format in DELIMITERS
    for ends in _row_ends(source):
        taken = 0
        if header:
            start = end = int(ends[0])
            header, taken = False, 1
        while taken < len(ends):
            # As many rows as there is room for, but at least one.
            room, fitting = shard_rows - rows, int(np.searchsorted(ends, start + SHARD_BYTES, side="right"))
            if fitting < len(ends):
                room = max(min(room, fitting - taken), 0 if rows else 1)
            more = min(room, len(ends) - taken)
            taken, rows = taken + more, rows + more
            end = int(ends[taken - 1]) if more else end
            if more == room:
                yield first, rows, start, end
                first, rows, start = first + rows, 0, end
    if rows:
        yield first, rows, start, end


def _row_ends(source: Source) -> Iterator[Any]:
    """The bytes after which rows end, some at a time."""
    try:
        with opened(source) as file:
            quoted = source.format in DELIMITERS and any(b'"' in chunk for chunk in _chunks(file))
        with opened(source) as file:
            yield from _table_ends(file, DELIMITERS[source.format]) if quoted else _line_ends(file)
    except (OSError, EOFError, zlib.error) as problem:
        raise DataError(f"{source.path} cannot be read ({reason(problem)}); copy it again") from problem


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    return iter(partial(file.read, _CHUNK), b"")


def _line_ends(file: BinaryIO) -> Iterator[Any]:
    position = closed = 0
    for chunk in _chunks(file):
        ends = np.flatnonzero(np.frombuffer(chunk, np.uint8) == _NEWLINE)
        if len(ends):
            yield position + ends + 1
            closed = position + int(ends[-1]) + 1
        position += len(chunk)
    if position > closed:  # the last line need not end
        yield np.array([position])


def _table_ends(file: BinaryIO, delimiter: str) -> Iterator[Any]:
    """The same for a table, whose fields may have line breaks between quotes; read as its rows will be."""
    position = 0

    def lines() -> Iterator[str]:
        nonlocal position
        for line in file:
            position += len(line)
            yield line.decode("utf-8", "replace")

    reader, ends = csv.reader(lines(), delimiter=delimiter, strict=True), list[int]()
    while True:
        try:
            next(reader)
        except StopIteration:
            break
        except csv.Error:  # a row that is told when it is read
            pass
        ends.append(position)
        if len(ends) >= _ROWS:
            yield np.array(ends)
            ends = []
    if ends:
        yield np.array(ends)


def _parquet_parts(source: Source, shard_rows: int) -> Iterator[Part]:
    first = rows = size = 0
    for count, weight in _row_groups(source):
        if rows and (rows + count > shard_rows or size + weight > SHARD_BYTES):
            yield first, rows, 0, 0
            first, rows, size = first + rows, 0, 0
        pieces = max(-(-count // shard_rows), -(-weight // SHARD_BYTES))
        if pieces > 1:  # a large row group, in equal pieces
            each = -(-count // pieces)
            for start in range(0, count, each):
                yield first, min(each, count - start), 0, 0
                first += min(each, count - start)
        else:
            rows, size = rows + count, size + weight
    if rows:
        yield first, rows, 0, 0


def _row_groups(source: Source) -> list[tuple[int, int]]:
    """The rows and bytes of each row group."""
    arrow: Any = importlib.import_module("pyarrow")
    try:
        known = importlib.import_module("pyarrow.parquet").read_metadata(source.path)
        groups = [known.row_group(number) for number in range(known.num_row_groups)]
        return [(group.num_rows, group.total_byte_size) for group in groups]
    except (OSError, ValueError, arrow.ArrowException) as problem:
        raise DataError(f"{source.path} cannot be read as Parquet ({reason(problem)}); copy it again") from problem
