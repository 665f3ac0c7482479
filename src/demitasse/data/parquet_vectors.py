"""Vectors as a Parquet file: the columns that are kept, `text`, and `vector`, a list of fixed size.

The metadata of the file say what made the vectors: under the key `demitasse`, a JSON object with the model, its
fingerprint, the cut, the prompt and how the vectors are stored. Rows are written in groups, so memory use does not
depend on their number. Needs pyarrow, the extra `data`.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from demitasse.data.text_rows import TextRow
from demitasse.encoding.encoder import Encoder
from demitasse.encoding.vectors import STORAGE_TYPES, columns, store
from demitasse.errors import DataError, reason
from demitasse.host.json_files import with_header

ROW_GROUP = 16_384  # rows
METADATA_KEY = "demitasse"

RowVector = tuple[TextRow, npt.NDArray[np.float32]]


def vector_facts(encoder: Encoder, kind: str, prompt: str) -> dict[str, Any]:
    """What made vectors that are stored as `kind`, as JSON values; `prompt` is what was put before each text."""
    facts = {"model": encoder.name, "fingerprint": encoder.fingerprint, "cut": str(encoder.full)}
    return with_header("vectors", {**facts, "dims": encoder.full.dims, "vectors": kind, "prompt": prompt})


def write_parquet(
    rows: Iterable[RowVector], file: BinaryIO, facts: Mapping[str, Any], kept: Mapping[str, Any] | Sequence[str] = ()
) -> int:
    """Write rows and their vectors, stored as `facts` say; returns how many there were.

    `kept` names the columns that are kept, with their Arrow types if these are known; others are told from the values
    of the first rows.
    """
    parquet = importlib.import_module("pyarrow.parquet")
    found = iter(rows)
    group = list(islice(found, ROW_GROUP))
    schema = _schema(group, facts, dict(kept) if isinstance(kept, Mapping) else dict.fromkeys(kept))
    count = 0
    words = dictionary_columns([name for name in schema.names if name != "vector"], facts["vectors"])
    with parquet.ParquetWriter(file, schema, use_dictionary=words) as writer:
        while group:
            writer.write_table(_table(group, schema, facts["vectors"]), row_group_size=ROW_GROUP)
            count += len(group)
            group = list(islice(found, ROW_GROUP))
    return count


def dictionary_columns(repeated: Sequence[str], kind: str) -> list[str]:
    """The columns of a Parquet file that have a dictionary: those whose values are `repeated`, and vectors of bytes.

    Parquet has no numbers of one byte: without a dictionary of the 256 of them, each would take four. Numbers of other
    vectors hardly ever repeat.
    """
    return [*repeated, *(["vector.list.element"] if STORAGE_TYPES[kind].itemsize == 1 else [])]


def _schema(rows: Sequence[RowVector], facts: Mapping[str, Any], kept: Mapping[str, Any]) -> Any:
    arrow = importlib.import_module("pyarrow")
    types = {
        name: type_of(name, [row.kept[name] for row, _ in rows]) if known is None else known
        for name, known in kept.items()
    }
    types.pop("text", None)  # kept under its own name anyway
    kind = facts["vectors"]
    numbers = arrow.from_numpy_dtype(STORAGE_TYPES[kind])
    types |= {"text": arrow.string(), "vector": arrow.list_(numbers, columns(facts["dims"], kind))}
    return arrow.schema([*types.items()], {METADATA_KEY: json.dumps(facts, ensure_ascii=False)})


def type_of(name: str, values: Sequence[Any]) -> Any:
    """The Arrow type of values that come without one."""
    arrow = importlib.import_module("pyarrow")
    if any(map(_has_fields, values)):
        raise DataError(f"the column {name!r} holds objects, whose fields may differ; keep it in a .jsonl file")
    found = typed_array(name, values, None).type
    return arrow.string() if arrow.types.is_null(found) else found


def _has_fields(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(map(_has_fields, value)))


def _table(rows: Sequence[RowVector], schema: Any, kind: str) -> Any:
    arrow = importlib.import_module("pyarrow")
    numbers = arrow.array(store(np.stack([vector for _, vector in rows]), kind).reshape(-1))
    made = {"text": arrow.array([row.text for row, _ in rows], arrow.string())}
    made["vector"] = arrow.FixedSizeListArray.from_arrays(numbers, schema.field("vector").type.list_size)
    for name, known in zip(schema.names, schema.types, strict=True):
        if name not in made:
            made[name] = typed_array(name, [row.kept[name] for row, _ in rows], known)
    return arrow.table([made[name] for name in schema.names], schema)


def typed_array(name: str, values: Sequence[Any], wanted: Any) -> Any:
    """The values of the column `name` as an Arrow array, of the type that is wanted if one is."""
    arrow = importlib.import_module("pyarrow")
    try:
        return arrow.array(values, wanted)
    except (ValueError, TypeError, OverflowError, arrow.ArrowException) as problem:
        why = f"cannot be one type of values ({reason(problem)})"
        raise DataError(f"the column {name!r} {why}; make it one, or write a .jsonl file, which keeps any") from problem
