"""Rows of files, lists and datasets, read one by one.

Nothing here knows what a row means. A row is a mapping from column to value, a list of values without names, or a text,
and comes with its location; one that cannot be read comes as a `BadRowError`, so that reading can go on.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from demitasse.data.json_arrays import array_values
from demitasse.data.parquet_rows import parquet_rows
from demitasse.encoding.tables import columns_of, listed
from demitasse.errors import DataError, reason
from demitasse.host.text_lines import read_lines, read_pieces

SUFFIXES = ".jsonl, .json, .csv, .tsv and .txt (each also with .gz) and .parquet"
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_TEXT = ".txt"  # one text per line
_ROWS = (".jsonl", ".json", *_DELIMITERS, ".parquet")


class BadRowError(Exception):
    """Why a row cannot be used, and what to do about it if there is more to say than to fix it."""

    def __init__(self, why: str, cure: str = "") -> None:
        super().__init__(why)
        self.cure = cure


Record = tuple[str, Any]  # a location, such as "line 17", and the row there


def records(given: object, name: str, columns: Sequence[str] | None = None) -> Iterator[Record]:
    """The rows of a file, a table, a list or a dataset, each with its location; errors call the source `name`.

    `columns` says which of a Parquet file's are needed: the others are not read.

    >>> list(records([("a cup", "a mug")], "rows"))
    [('row 0', ('a cup', 'a mug'))]
    >>> list(records({"anchor": ["a cup"], "positive": ["a mug"]}, "rows"))
    [('row 0', {'anchor': 'a cup', 'positive': 'a mug'})]
    """
    if isinstance(given, (str, os.PathLike)):
        return _file_records(Path(given), name, columns)
    if isinstance(given, (list, tuple)):
        return _numbered(given)
    if hasattr(given, "column_names") and not hasattr(given, "columns"):  # an Arrow table has both
        return _dataset_records(given, name)
    try:
        table = columns_of(given)
    except DataError as problem:
        raise DataError(f"{name}: {problem}") from problem
    if table is None:
        raise DataError(
            f"{name} is of type {type(given).__name__}; give a file path, a list of rows, a table or a dataset"
        )
    return _numbered(dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True))


def row_suffix(path: Path) -> str | None:
    """The suffix, without .gz, of a file of rows with columns; None for any other file, which is read as text.

    >>> row_suffix(Path("pairs.JSONL.gz")), row_suffix(Path("notes.txt"))
    ('.jsonl', None)
    """
    suffix = _suffix(path)
    return suffix if suffix in _ROWS else None


def _suffix(path: Path) -> str:
    packed = path.suffix.lower() == ".gz"
    suffix = (path.with_suffix("") if packed else path).suffix.lower()
    return ".parquet.gz" if packed and suffix == ".parquet" else suffix


def _numbered(rows: Iterable[Any]) -> Iterator[Record]:
    return ((f"row {number}", row) for number, row in enumerate(rows))


def _dataset_records(dataset: Any, name: str) -> Iterator[Record]:
    if isinstance(dataset.column_names, dict):
        splits = listed(dataset.column_names)
        raise DataError(
            f"{name} is a dataset with several splits ({splits}); give one of them, such as dataset['train']"
        )
    # Iterating over a dataset reads it in chunks; indexing row by row would not.
    in_order = dataset if hasattr(dataset, "__iter__") else (dataset[row] for row in range(len(dataset)))
    return _numbered(in_order)


def _file_records(path: Path, name: str, columns: Sequence[str] | None) -> Iterator[Record]:
    suffix = _suffix(path)
    if suffix not in (*_ROWS, _TEXT):
        raise DataError(f"the format of {path} is not known; rows are read from files that end in {SUFFIXES}")
    if not path.is_file():
        raise DataError(f"{path} is {'not a file' if path.exists() else 'missing'}; give the path of a file")
    if suffix == ".parquet":
        return _numbered(parquet_rows(path, name, columns))
    if suffix == ".json" and _is_array(path, name):
        return _numbered(array_values(read_pieces(path, name=name), name))
    lines = read_lines(path, name=name, keep_ends=True)
    if suffix == _TEXT:
        return ((f"line {number}", line.rstrip("\r\n")) for number, line in enumerate(lines, 1) if not line.isspace())
    return _table_records(lines, name, _DELIMITERS[suffix]) if suffix in _DELIMITERS else _json_records(lines, name)


def _is_array(path: Path, name: str) -> bool:
    return next((text[0] == "[" for piece in read_pieces(path, name=name) if (text := piece.lstrip())), False)


def _json_records(lines: Iterator[str], name: str) -> Iterator[Record]:
    first = True
    for number, line in enumerate(lines, 1):
        if line.isspace():
            continue
        value: Any
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as problem:
            cure = "write each row on one line, or an array of rows to a .json file" if first else ""
            value = BadRowError(f"it is not JSON ({getattr(problem, 'msg', reason(problem))})", cure)
        if first and isinstance(value, dict) and value and all(isinstance(held, dict) for held in value.values()):
            raise DataError(
                f"{name} holds one object of columns, as pandas writes by default; write it with orient='records'"
            )
        first = False
        yield f"line {number}", value


def _table_records(lines: Iterator[str], name: str, delimiter: str) -> Iterator[Record]:
    # Strict, because an unclosed quote would otherwise swallow the rows that follow it.
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        header = next(reader, [])
    except csv.Error as problem:
        raise DataError(f"{name} line 1 is not a header ({problem}); write the column names there") from problem
    if len(set(header)) < len(header):
        raise DataError(f"{name} line 1 names a column twice ({listed(header)}); give each its own name")
    other = next((sign for sign in ",;\t" if len(header) == 1 and sign in header[0]), None)
    if other is not None:
        wanted = "tabs" if delimiter == "\t" else "commas"
        raise DataError(f"{name} line 1 has no {wanted} but {header[0]!r:.60}; separate the columns by {wanted}")
    while True:
        value: Any
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as problem:
            value = BadRowError(f"it cannot be parsed ({problem})")
        else:
            if not fields:
                continue
            value = dict(zip(header, fields, strict=False))  # a short row lacks its last columns
            if len(fields) > len(header):
                value = BadRowError(f"it has {len(fields)} fields but the header has {len(header)}")
        yield f"line {reader.line_num}", value
