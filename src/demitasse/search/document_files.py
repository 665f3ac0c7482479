"""Documents to index, read from files: rows with a text, an id and metadata; lines of text; BEIR folders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

from demitasse.data.text_rows import TextRow, read_text_rows
from demitasse.encoding.tables import listed
from demitasse.errors import DataError, shown
from demitasse.evaluation.task_files import beir_file, beir_text, each_beir_row

_ID_COLUMNS = ("_id", "id")


@dataclass(frozen=True)
class FileDocument:
    """A text of a file."""

    text: str
    id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


def read_documents(source: Path, column: str | None = None, id_column: str | None = None) -> Iterator[FileDocument]:
    """The documents of a file or a BEIR folder, read as they are asked for; wrong names are refused at once.

    Of a file of rows (.jsonl, .json, .csv, .tsv, each also .gz, and .parquet) the texts are in `column`, else `text`,
    else the only one that holds strings; the ids in `id_column`, else `_id` or `id` if there is one. All other columns
    are metadata. Of any other file each line is a text.
    """
    if source.is_dir():
        if column is not None or id_column is not None:
            raise DataError(f"{source} is a folder, whose columns are those of BEIR; --column and --id are for files")
        if beir_file(source, "corpus") is None:
            raise DataError(f"the folder {source} has no corpus.jsonl; give a BEIR folder, or a file of texts")
        return _beir_documents(source)
    found = read_text_rows(source, column, None)
    if found.column is None:
        if id_column is not None:
            raise DataError(f"{source} is read as one text per line, without columns; --id is for files of rows")
        return (FileDocument(row.text) for row in found.rows)
    first = list(islice(found.rows, 1))
    names = {*first[0].kept} if first else {id_column or ""}
    if id_column is not None and id_column not in names:
        columns = listed(sorted(names))
        raise DataError(f"{source}: there is no column {id_column!r} with ids; the columns are {columns}")
    chosen = id_column or next((name for name in _ID_COLUMNS if name in names), None)
    return _row_documents(source, chain(first, found.rows), chosen)


def _row_documents(source: Path, rows: Iterator[TextRow], id_column: str | None) -> Iterator[FileDocument]:
    for number, row in enumerate(rows):
        metadata = {name: value for name, value in row.kept.items() if name != id_column and value is not None}
        id_ = None if id_column is None else _id(row.kept.get(id_column), f"{source} row {number}", id_column)
        yield FileDocument(row.text, id_, metadata)


def _beir_documents(folder: Path) -> Iterator[FileDocument]:
    for line, row in each_beir_row(folder, "corpus"):
        inner = row.get("metadata")
        metadata = {name: row[name] for name in row if name not in ("_id", "text", "metadata") and row[name]}
        metadata |= inner if isinstance(inner, Mapping) else {}
        yield FileDocument(beir_text(row), _id(row["_id"], line, "_id"), metadata)


def _id(value: object, where: str, column: str) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        raise DataError(f"{where} has {shown(value)} as its {column}; every id must be a string or a whole number")
    return str(value)
