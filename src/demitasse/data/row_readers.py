"""Rows of files, lists and datasets, read one by one.

Nothing here knows what a row means. A row is a mapping from column to value, a list of values without names, or a text,
and comes with its location; one that cannot be read comes as a `BadRowError`, so that reading can go on.
"""

from __future__ import annotations

import csv
import importlib
import json
import os
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from demitasse.errors import DataError, reason
from demitasse.extras import PARQUET, need
from demitasse.host.text_lines import read_lines

SUFFIXES = ".jsonl, .json, .csv, .tsv and .txt (each also with .gz) and .parquet"
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_JSON = (".jsonl", ".json")
_TEXT = ".txt"  # one text per line


class BadRowError(Exception):
    """Why a row cannot be used, and what to do about it if there is more to say than to fix it."""

    def __init__(self, why: str, cure: str = "") -> None:
        super().__init__(why)
        self.cure = cure


Record = tuple[str, Any]  # a location, such as "line 17", and the row there


def records(given: object, name: str) -> Iterator[Record]:
    """The rows of a file, a list or a dataset, each with its location; errors call the source `name`.

    >>> list(records([("a cup", "a mug")], "rows"))
    [('row 0', ('a cup', 'a mug'))]
    """
    if isinstance(given, (str, os.PathLike)):
        return _file_records(Path(given), name)
    if isinstance(given, (list, tuple)):
        return _numbered(given)
    if all(hasattr(given, part) for part in ("column_names", "__len__", "__getitem__")):
        return _dataset_records(given, name)
    raise DataError(
        f"{name} is of type {type(given).__name__}; give a file path, a list of rows or a Hugging Face dataset"
    )


def _numbered(rows: Iterable[Any]) -> Iterator[Record]:
    return ((f"row {number}", row) for number, row in enumerate(rows))


def _dataset_records(dataset: Any, name: str) -> Iterator[Record]:
    if isinstance(dataset.column_names, dict):
        splits = ", ".join(map(str, dataset.column_names))
        raise DataError(
            f"{name} is a dataset with several splits ({splits}); give one of them, such as dataset['train']"
        )
    # Iterating over a dataset reads it in chunks; indexing row by row would not.
    in_order = dataset if hasattr(dataset, "__iter__") else (dataset[row] for row in range(len(dataset)))
    return _numbered(in_order)


def _file_records(path: Path, name: str) -> Iterator[Record]:
    packed = path.suffix.lower() == ".gz"
    suffix = (path.with_suffix("") if packed else path).suffix.lower()
    if suffix not in (*_JSON, *_DELIMITERS, _TEXT, ".parquet") or (packed and suffix == ".parquet"):
        raise DataError(f"the format of {path} is not known; training files end in {SUFFIXES}")
    if not path.is_file():
        raise DataError(f"{path} is {'not a file' if path.exists() else 'missing'}; give the path of a training file")
    if suffix == ".parquet":
        return _parquet_records(path, name)
    lines = read_lines(path, name=name, keep_ends=True)
    if suffix == _TEXT:
        return ((f"line {number}", line.rstrip("\r\n")) for number, line in enumerate(lines, 1) if not line.isspace())
    return _json_records(lines) if suffix in _JSON else _table_records(lines, name, _DELIMITERS[suffix])


def _json_records(lines: Iterator[str]) -> Iterator[Record]:
    for number, line in enumerate(lines, 1):
        if line.isspace():
            continue
        value: Any
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as problem:
            value = BadRowError(f"it is not JSON ({getattr(problem, 'msg', reason(problem))})")
        yield f"line {number}", value


def _table_records(lines: Iterator[str], name: str, delimiter: str) -> Iterator[Record]:
    # Strict, because an unclosed quote would otherwise swallow the rows that follow it.
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        header = next(reader, [])
    except csv.Error as problem:
        raise DataError(f"{name} line 1 is not a header ({problem}); write the column names there") from problem
    if len(set(header)) < len(header):
        raise DataError(f"{name} line 1 names a column twice ({', '.join(header)}); give each its own name")
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


def _parquet_records(path: Path, name: str) -> Iterator[Record]:
    need(f"reading {name}", PARQUET)
    return _numbered(_parquet_rows(importlib.import_module("pyarrow.parquet"), path))


def _parquet_rows(parquet: Any, path: Path) -> Iterator[Any]:
    try:
        with parquet.ParquetFile(path) as file:
            yield from chain.from_iterable(batch.to_pylist() for batch in file.iter_batches(batch_size=1024))
    except (OSError, ValueError) as problem:  # pyarrow raises subclasses of these
        raise DataError(f"{path} cannot be read as Parquet ({reason(problem)}); copy it again") from problem
