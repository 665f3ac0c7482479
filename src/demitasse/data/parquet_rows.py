"""Rows of Parquet files, a few thousand at a time, and the types of their columns. Needs pyarrow, the extra `data`."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from demitasse.errors import DataError, reason
from demitasse.extras import PARQUET, need

_ROWS = 1024  # made into Python objects at a time
_BUFFER = 1 << 20  # bytes read at a time for each column; by default a whole row group is read, however large


def parquet_rows(path: Path, name: str, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """The rows of a file by column name, or only some of their columns; a missing pyarrow is told at once."""
    need(f"reading {name}", PARQUET)
    return _rows(path, columns)


def parquet_types(path: Path, name: str) -> dict[str, Any]:
    """The columns of a file, each with its Arrow type."""
    need(f"reading {name}", PARQUET)
    with _one_sentence(path):
        schema = importlib.import_module("pyarrow.parquet").read_schema(path)
        return dict(zip(schema.names, schema.types, strict=True))


def holds_strings(arrow_type: Any) -> bool:
    """Whether a column of this Arrow type holds strings."""
    types = importlib.import_module("pyarrow.types")
    if types.is_dictionary(arrow_type):
        return holds_strings(arrow_type.value_type)
    kinds = ("is_string", "is_large_string", "is_string_view")  # the last is missing in older versions
    return any(getattr(types, kind)(arrow_type) for kind in kinds if hasattr(types, kind))


def _rows(path: Path, columns: Sequence[str] | None) -> Iterator[dict[str, Any]]:
    parquet = importlib.import_module("pyarrow.parquet")
    with _one_sentence(path), parquet.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False) as file:
        for batch in file.iter_batches(_ROWS, columns=None if columns is None else [*columns]):
            yield from batch.to_pylist()


@contextmanager
def _one_sentence(path: Path) -> Iterator[None]:
    arrow: Any = importlib.import_module("pyarrow")
    try:
        yield
    except (OSError, ValueError, OverflowError, MemoryError, arrow.ArrowException) as problem:
        raise DataError(f"{path} cannot be read as Parquet ({reason(problem)}); copy it again") from problem
