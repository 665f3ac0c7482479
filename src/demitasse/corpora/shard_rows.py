"""The rows of one shard, read and sorted out: texts to encode, rows that are empty or double, rows that are bad."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, BinaryIO

from demitasse.corpora.bad_rows import BadRow
from demitasse.corpora.columns import Columns
from demitasse.corpora.distinct_texts import DistinctTexts
from demitasse.corpora.line_rows import kind_of, line_rows
from demitasse.corpora.options import ID
from demitasse.corpora.shards import Shard, opened
from demitasse.corpora.sources import PARQUET_FORMAT, Source
from demitasse.data.row_readers import BadRowError
from demitasse.encoding.text_checks import checked
from demitasse.errors import DataError, reason

_BATCH = 8192  # rows of a Parquet file at a time
_BUFFER = 1 << 20  # bytes


@dataclass
class ShardRows:
    """What is left of a shard to encode, by column, and what was left out."""

    texts: list[str] = field(default_factory=list)
    columns: dict[str, list[Any]] = field(default_factory=dict)  # of the output: the ids, and what is kept
    bad: list[BadRow] = field(default_factory=list)
    empty: int = 0
    duplicates: int = 0


@dataclass
class ShardReader:
    """Reads shards one after the other; those of a packed file are best read in order."""

    sources: Sequence[Source]
    columns: Columns
    seen: DistinctTexts | None = None
    _file: tuple[int, BinaryIO] | None = None  # the packed file that was read last: to seek in it is to read it again

    def read(self, shard: Shard) -> ShardRows:
        """The rows of a shard."""
        source, rows = self.sources[shard.source], ShardRows(columns={name: [] for name in self.columns.types})
        if source.format == PARQUET_FORMAT:
            self._read_parquet(shard, source, rows)
        else:
            self._sort(line_rows(self._opened(shard, source), shard, source), shard, source, rows)
        if self.seen is not None:
            _leave_out(rows, self.seen)
        return rows

    def close(self) -> None:
        """Let go of the file that is open."""
        if self._file is not None:
            self._file[1].close()
            self._file = None

    def read_batch(self, batch: Any, name: str) -> ShardRows:
        """The rows of an Arrow table that somebody else has read; bad rows are named by their ids."""
        rows = ShardRows(columns={name: [] for name in self.columns.types})
        self._add_batch(batch, name, rows, None, 0)
        return rows

    def _read_parquet(self, shard: Shard, source: Source, rows: ShardRows) -> None:
        position = shard.first
        for batch in _parquet_batches(source, shard, self.columns.read):
            self._add_batch(batch, source.path, rows, position, shard.before + position - shard.first)
            position += batch.num_rows

    def _add_batch(self, batch: Any, name: str, rows: ShardRows, position: int | None, number: int) -> None:
        """Add rows, the first of which is at `position` in its file and has the `number`, if rows are numbered."""
        values = {one: _values(batch, self.columns.id if one == ID else one) for one in self.columns.types}
        texts = batch.column(self.columns.text).to_pylist()
        if self.columns.id is None:
            values[ID] = list(range(number, number + len(texts)))
        # Most batches are fine, and can be taken as they are.
        if all(type(text) is str and text and not text.isspace() for text in texts) and None not in values[ID]:
            rows.texts += texts
            for one, column in values.items():
                rows.columns[one] += column
            return
        for offset, text in enumerate(texts):
            row = {one: column[offset] for one, column in values.items()}
            location = f"id {row[ID]!r}" if position is None else f"row {position + offset}"
            self._add(row, text, location, name, rows)

    def _sort(self, parsed: Iterable[tuple[str, Any]], shard: Shard, source: Source, rows: ShardRows) -> None:
        text_name, id_name, kept = self.columns.text, self.columns.id, self.columns.kept
        for number, (location, row) in enumerate(parsed):
            if row is None:
                rows.empty += 1
            elif isinstance(row, str):
                self._add({ID: shard.before + number}, row, location, source.path, rows)
            elif isinstance(row, Mapping):
                values = {ID: shard.before + number if id_name is None else row.get(id_name)}
                for name in kept:
                    values[name] = row.get(name)
                self._add(values, row.get(text_name), location, source.path, rows)
            else:
                why = str(row) if isinstance(row, BadRowError) else f"it is {kind_of(row)}, not a row with column names"
                rows.bad.append(BadRow(source.path, location, why))

    def _add(self, values: dict[str, Any], text: Any, location: str, name: str, rows: ShardRows) -> None:
        if not isinstance(text, str):
            why = "is missing" if text is None else f"is {kind_of(text)}, not a string"
            rows.bad.append(BadRow(name, location, f"{self.columns.text!r} {why}"))
        elif values[ID] is None:
            rows.bad.append(BadRow(name, location, f"{self.columns.id!r}, its id, is missing"))
        elif not text or text.isspace():
            rows.empty += 1
        else:
            why_not = None if self._plain_types else self._misfit(values)
            if why_not is not None:
                rows.bad.append(BadRow(name, location, why_not))
                return
            rows.texts.append(text if text.isascii() else next(checked([text])))
            for one, value in values.items():
                rows.columns[one].append(value)

    @cached_property
    def _plain_types(self) -> bool:
        """Whether no value can fail to fit: rows are numbered, and nothing is kept."""
        return self.columns.id is None and not self.columns.kept

    @cached_property
    def _python_types(self) -> dict[str, type | None]:
        """The Python type whose values surely fit the Arrow type of a column, where it is one of the usual two."""
        types = importlib.import_module("pyarrow.types")
        known = ((types.is_string, str), (types.is_int64, int))
        return {
            name: next((python for fits, python in known if fits(kind)), None)
            for name, kind in self.columns.types.items()
        }

    def _misfit(self, values: Mapping[str, Any]) -> str | None:
        """Why one of the values cannot be written in its column."""
        arrow: Any = importlib.import_module("pyarrow")
        for name, value in values.items():
            python = self._python_types[name]
            if value is None or (python is str and type(value) is str and value.isascii()):
                continue
            if python is int and type(value) is int and -(1 << 63) <= value < 1 << 63:
                continue
            try:
                arrow.array([value], self.columns.types[name])
            except (ValueError, TypeError, OverflowError, arrow.ArrowException):
                column = self.columns.id if name == ID else name
                return f"{column!r} is {kind_of(value)} and cannot be written as {self.columns.types[name]}"
        return None

    def _opened(self, shard: Shard, source: Source) -> BinaryIO:
        if self._file is None or self._file[0] != shard.source:
            self.close()
            self._file = (shard.source, opened(source))
        return self._file[1]


def _parquet_batches(source: Source, shard: Shard, columns: Sequence[str]) -> Iterator[Any]:
    """The batches of a Parquet file that hold the rows of a shard, and nothing else."""
    arrow: Any = importlib.import_module("pyarrow")
    parquet = importlib.import_module("pyarrow.parquet")
    try:
        with parquet.ParquetFile(source.path, buffer_size=_BUFFER, pre_buffer=False) as file:
            position, groups, skip = 0, list[int](), 0
            for number in range(file.metadata.num_row_groups):
                rows = file.metadata.row_group(number).num_rows
                if position < shard.first + shard.rows and position + rows > shard.first:
                    skip = shard.first - position if not groups else skip
                    groups.append(number)
                position += rows
            left = shard.rows
            for batch in file.iter_batches(_BATCH, row_groups=groups, columns=[*columns], use_threads=False):
                part = batch.slice(skip, left) if skip < batch.num_rows else None
                skip = max(0, skip - batch.num_rows)
                if part is not None and part.num_rows:
                    left -= part.num_rows
                    yield part
                if not left:
                    return
    except (OSError, ValueError, OverflowError, arrow.ArrowException) as problem:
        raise DataError(f"{source.path} cannot be read as Parquet ({reason(problem)}); copy it again") from problem


def _values(batch: Any, name: str | None) -> list[Any]:
    return [] if name is None else batch.column(name).to_pylist()


def _leave_out(rows: ShardRows, seen: DistinctTexts) -> None:
    """Leave out the rows whose text was there before."""
    new = seen.add(rows.texts)
    if all(new):
        return
    rows.duplicates = len(new) - sum(new)
    rows.texts = [text for text, is_new in zip(rows.texts, new, strict=True) if is_new]
    for name, values in rows.columns.items():
        rows.columns[name] = [value for value, is_new in zip(values, new, strict=True) if is_new]
