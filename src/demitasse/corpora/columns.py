"""Which columns of a corpus are read, and the types that those which are kept have in the output."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demitasse.corpora.line_rows import line_rows
from demitasse.corpora.options import ID, CorpusOptions
from demitasse.corpora.shards import first_shard, opened
from demitasse.corpora.sources import PARQUET_FORMAT, TEXT_LINES, Source
from demitasse.data.parquet_rows import holds_strings, parquet_types
from demitasse.data.parquet_vectors import type_of
from demitasse.encoding.tables import TEXT, listed, text_column
from demitasse.errors import DataError

_LOOKED_AT = 1000  # rows that say which columns a file has, where it does not say itself
_IDS = (ID, "_id")


@dataclass(frozen=True)
class Columns:
    """The columns that are read: with the texts, the ids and what is kept, with the Arrow types of the last two."""

    text: str
    id: str | None  # None: rows are numbered
    types: Mapping[str, Any]  # by the name in the output, `id` first

    @property
    def kept(self) -> list[str]:
        """The columns that are written beside the id and the vector."""
        return [name for name in self.types if name != ID]

    @property
    def read(self) -> list[str]:
        """The names of all columns of a source that are needed."""
        return [*dict.fromkeys((self.text, *([] if self.id is None else [self.id]), *self.kept))]


def choose_columns(sources: Sequence[Source], options: CorpusOptions) -> Columns:
    """The columns by the options and by the first source that has any; wrong names are refused."""
    arrow = importlib.import_module("pyarrow")
    tables = [source for source in sources if source.format != TEXT_LINES]
    if len(tables) < len(sources) and (options.id is not None or options.keep):
        lines = next(source.path for source in sources if source.format == TEXT_LINES)
        raise DataError(f"{lines} is read as one text per line, so it has no ids and nothing to keep; leave these out")
    if not tables:
        return Columns(TEXT, None, {ID: arrow.int64()})
    columns, types = _looked_at(tables[0])
    try:
        text = text_column(columns, options.column, option="--column")
        for name in (*([] if options.id is None else [options.id]), *options.keep):
            text_column(columns, name)
    except DataError as problem:
        raise DataError(f"{tables[0].path}: {problem}") from None
    id_column = options.id
    if id_column is None and len(tables) == len(sources):
        id_column = next((name for name in _IDS if name in columns and name != text), None)
    made = {ID: arrow.int64() if id_column is None else types[id_column]}
    made |= {name: types[name] for name in options.keep if name != id_column}
    chosen = Columns(text, id_column, made)
    for source in tables[1:]:
        _check_parquet(source, chosen, tables[0])
    return chosen


def _looked_at(source: Source) -> tuple[dict[str, list[Any]], Mapping[str, Any]]:
    """The columns of a source with some values, and their Arrow types, which are worked out when they are wanted."""
    path = Path(source.path)
    if source.format == PARQUET_FORMAT:
        types = parquet_types(path, source.path)
        return {name: ["" if holds_strings(kind) else 0] for name, kind in types.items()}, types
    columns: dict[str, list[Any]] = {}
    shard = first_shard(source, _LOOKED_AT)
    if shard is not None:
        with opened(source) as file:
            for _, row in line_rows(file, shard, source):
                for name, value in row.items() if isinstance(row, Mapping) else ():
                    columns.setdefault(name, []).append(value)
    if not columns:
        raise DataError(f"{source.path} has no rows with columns at its beginning; give rows with names")
    return columns, _TypesOf(columns)


class _TypesOf(dict[str, Any]):
    """Arrow types of columns, told from their values: where these differ, from the most frequent kind of them."""

    def __init__(self, columns: Mapping[str, list[Any]]) -> None:
        super().__init__()
        self._columns = columns

    def __missing__(self, name: str) -> Any:
        values = self._columns[name]
        try:
            return type_of(name, values)
        except DataError:
            ((usual, _),) = Counter(type(value) for value in values if value is not None).most_common(1)
            return type_of(name, [value for value in values if type(value) is usual])


def _check_parquet(source: Source, columns: Columns, first: Source) -> None:
    """Refuse a Parquet file that lacks a column, or has it in another type: all of its rows would be bad."""
    if source.format != PARQUET_FORMAT:
        return
    there = parquet_types(Path(source.path), source.path)
    missing = next((name for name in columns.read if name not in there), None)
    if missing is not None:
        raise DataError(f"{source.path} has no column {missing!r}; its columns are {listed(there)}")
    for name, kind in columns.types.items():
        column = columns.id if name == ID else name
        if column is not None and there[column] != kind:
            types = f"{there[column]} in {source.path} and {kind} in {first.path}"
            raise DataError(f"the column {column!r} is {types}; make them one type")
