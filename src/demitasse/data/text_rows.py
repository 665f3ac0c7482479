"""The texts of a file, one by one: the lines of a text file, or one column of a file of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

from demitasse.data.columns import by_column
from demitasse.data.parquet_rows import holds_strings, parquet_types
from demitasse.data.row_readers import BadRowError, Record, records, row_suffix
from demitasse.encoding.tables import TEXT, text_column
from demitasse.encoding.text_checks import checked
from demitasse.errors import DataError
from demitasse.host.text_lines import read_lines

_LOOKED_AT = 100  # rows that say which columns a file has, where it does not say itself


@dataclass(frozen=True)
class TextRow:
    """A text, and the columns of its row that are kept with it."""

    text: str
    kept: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TextRows:
    """What `read_text_rows` returns: rows that are read as they are asked for, and where their texts come from."""

    rows: Iterator[TextRow]
    column: str | None = None  # None: the lines of a text file
    types: Mapping[str, Any] = field(default_factory=dict)  # the Arrow types of kept columns, if the file has them


def read_texts(path: Path) -> Iterator[str]:
    """The texts of a file: its lines, or its column `text` if it is .jsonl, .json, .csv, .tsv or .parquet."""
    return (row.text for row in read_text_rows(path, option=None).rows)


def read_text_rows(
    path: Path, column: str | None = None, keep: Sequence[str] | None = (), *, option: str | None = "--column"
) -> TextRows:
    """The texts of a file, with the values of the columns `keep` (`None`: all); wrong names are refused at once.

    The texts are the lines of the file, or if it is .jsonl, .json, .csv, .tsv (each also .gz) or .parquet, one of its
    columns: `column`, else `text`, else the only one that holds strings. `option` is how the user names a column.
    """
    suffix = None if str(path) == "-" else row_suffix(path)
    if suffix is None:
        if column is not None or keep:
            wanted = "--column and --keep are for .jsonl, .json, .csv, .tsv and .parquet files"
            raise DataError(f"{path} is read as one text per line, without columns; {wanted}")
        return TextRows(TextRow(line) for line in read_lines(path))
    if suffix == ".parquet":
        types = parquet_types(path, str(path))
        columns: dict[str, list[Any]] = {name: ["" if holds_strings(kind) else 0] for name, kind in types.items()}
        chosen = _chosen(path, columns, column, keep or (), option)
        keep = [name for name in types if name != chosen] if keep is None else keep
        found = records(path, str(path), [*dict.fromkeys((chosen, *keep))])
        return TextRows(_text_rows(path, found, chosen, keep), chosen, {name: types[name] for name in keep})
    found = records(path, str(path))
    first = list(islice(found, _LOOKED_AT))
    chosen = _chosen(path, _columns(row for _, row in first), column, keep or (), option) if first else column or TEXT
    return TextRows(_text_rows(path, chain(first, found), chosen, keep), chosen)


def _columns(rows: Iterator[Any]) -> dict[str, list[Any]]:
    """The columns of some rows, each with its values."""
    columns: dict[str, list[Any]] = {}
    for row in rows:
        if isinstance(row, (Mapping, str)):
            for name, value in by_column(row).items():
                columns.setdefault(name, []).append(value)
    return columns


def _chosen(
    path: Path, columns: Mapping[str, list[Any]], column: str | None, keep: Sequence[str], option: str | None
) -> str:
    try:
        for name in keep:
            text_column(columns, name)
        # Rows without a single column are all bad, and the first of them is reported when it is read.
        return text_column(columns, column, option=option) if columns else column or TEXT
    except DataError as problem:
        raise DataError(f"{path}: {problem}") from None


def _text_rows(path: Path, found: Iterator[Record], column: str, keep: Sequence[str] | None) -> Iterator[TextRow]:
    for location, row in found:
        try:
            named = _named(row)
            text = _text(named, column)
        except BadRowError as bad:
            raise DataError(f"{path} {location}: {bad}; {bad.cure or 'fix the row or leave it out'}") from None
        kept = [name for name in named if name != column] if keep is None else keep
        yield TextRow(text, {name: named.get(name) for name in kept})


def _named(row: Any) -> Mapping[str, Any]:
    if isinstance(row, BadRowError):
        raise row
    if isinstance(row, (Mapping, str)):
        return by_column(row)
    raise BadRowError(f"it is of type {type(row).__name__}, not a row with column names")


def _text(row: Mapping[str, Any], column: str) -> str:
    text = row.get(column)
    if text is None:
        raise BadRowError(f"{column!r} is missing", "fix the row, or write '' for an empty text")
    if not isinstance(text, str):
        raise BadRowError(f"{column!r} holds a value of type {type(text).__name__}, not a string")
    return next(checked([text]))
