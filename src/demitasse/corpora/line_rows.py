"""The rows of a part of a file of lines, each with its location; one that cannot be read is a `BadRowError`."""

from __future__ import annotations

import csv
import json
import zlib
from collections.abc import Iterator
from itertools import count
from typing import Any, BinaryIO

from demitasse.corpora.shards import Shard, opened
from demitasse.corpora.sources import DELIMITERS, TEXT_LINES, Source
from demitasse.data.row_readers import BadRowError
from demitasse.encoding.tables import listed
from demitasse.errors import DataError, reason
from demitasse.host.text_lines import MAX_LINE, check_text

_BOM = b"\xef\xbb\xbf"


def line_rows(file: BinaryIO, shard: Shard, source: Source) -> Iterator[tuple[str, Any]]:
    """The rows of a shard, by column name or a text, each with its location; None is a blank line."""
    lines = _lines(file, shard, source)
    if source.format in DELIMITERS:
        return _table_rows(lines, shard, source, DELIMITERS[source.format])
    numbered = ((f"line {number}", line) for number, line in enumerate(lines, shard.first + 1))
    if source.format == TEXT_LINES:
        return ((place, line.rstrip("\r\n") if isinstance(line, str) else line) for place, line in numbered)
    return ((place, _json(line)) for place, line in numbered)


def kind_of(value: object) -> str:
    """What a value is, for a sentence."""
    return "null" if value is None else f"of type {type(value).__name__}"


def _lines(file: BinaryIO, shard: Shard, source: Source) -> Iterator[str | BadRowError]:
    """The lines of a shard; one that is no UTF-8 text is a bad row."""
    try:
        file.seek(shard.start)
        position = shard.start
        while position < shard.end:
            line = file.readline(min(shard.end - position, MAX_LINE + 1))
            if not line:
                raise DataError(f"{source.path} has become shorter while it was read; leave it alone and run again")
            position += len(line)
            if len(line) > MAX_LINE:
                while not line.endswith(b"\n") and position < shard.end:
                    line = file.readline(min(shard.end - position, MAX_LINE))
                    position += len(line)
                yield BadRowError(f"it is longer than {MAX_LINE >> 20} MB")
                continue
            yield _decoded(line, source, first=position == len(line))
    except (EOFError, zlib.error, OSError) as problem:
        raise DataError(f"{source.path} cannot be read ({reason(problem)}); copy it again") from problem


def _decoded(line: bytes, source: Source, *, first: bool) -> str | BadRowError:
    if first:
        check_text(line, source.path, 1, first=True)  # a file that is no text at all is refused
        line = line.removeprefix(_BOM)
    try:
        if b"\0" in line:
            return BadRowError("it has a zero byte, as binary files have")
        return line.decode()
    except UnicodeDecodeError as problem:
        return BadRowError(f"it is not UTF-8 ({problem.reason})")


def _json(line: str | BadRowError) -> Any:
    if not isinstance(line, str):
        return line
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as problem:
        return None if line.isspace() else BadRowError(f"it is not JSON ({getattr(problem, 'msg', reason(problem))})")
    return BadRowError(f"it is {kind_of(value)}, not a row with column names") if not isinstance(value, dict) else value


def _table_rows(
    lines: Iterator[str | BadRowError], shard: Shard, source: Source, delimiter: str
) -> Iterator[tuple[str, Any]]:
    header = _header(source, delimiter)
    broken: list[BadRowError] = []  # lines of the row that is being read

    def decoded() -> Iterator[str]:
        for line in lines:
            if isinstance(line, str):
                yield line
            else:
                broken.append(line)
                yield "\n"

    reader = csv.reader(decoded(), delimiter=delimiter, strict=True)
    for number in count(shard.first):
        value: Any
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as problem:
            value = BadRowError(f"it cannot be parsed ({problem})")
        else:
            value = dict(zip(header, fields, strict=False)) if fields else None
            if len(fields) > len(header):
                value = BadRowError(f"it has {len(fields)} fields but the header has {len(header)}")
        if broken:
            value = broken[0]
            broken.clear()
        yield f"row {number}", value


def _header(source: Source, delimiter: str) -> list[str]:
    with opened(source) as file:
        text = (line.decode("utf-8-sig", "replace") for line in file)
        try:
            header = next(csv.reader(text, delimiter=delimiter, strict=True))
        except csv.Error as problem:
            raise DataError(f"{source.path} line 1 is not a header ({problem}); write the column names there") from None
    if len({*header}) < len(header):
        raise DataError(f"{source.path} line 1 names a column twice ({listed(header)}); give each its own name")
    return header
