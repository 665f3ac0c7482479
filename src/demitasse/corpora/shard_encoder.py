"""Rows in, a table of vectors out: what is done with a shard on one machine, and with a batch on many."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from demitasse.corpora.columns import Columns
from demitasse.corpora.options import VECTOR, CorpusOptions
from demitasse.corpora.shard_rows import ShardRows
from demitasse.data.parquet_vectors import METADATA_KEY, typed_array, vector_facts
from demitasse.encoding.encoder import Encoder
from demitasse.encoding.groups import EncodedGroup, encode_groups
from demitasse.encoding.token_tally import TokenTally
from demitasse.encoding.vectors import STORAGE_TYPES, Stored, Vectors, store
from demitasse.encoding.vectors import columns as stored_columns
from demitasse.host.progress import Advance


@dataclass(frozen=True)
class Encoded:
    """Vectors as they come from the model, and what was read for them."""

    windows: list[Vectors]
    tally: TokenTally
    kind: str
    dims: int

    def stored(self) -> Stored:
        """The vectors as they are stored."""
        none = np.empty((0, stored_columns(self.dims, self.kind)), STORAGE_TYPES[self.kind])
        return np.concatenate([none, *(store(vectors, self.kind) for vectors in self.windows)])


@dataclass(frozen=True)
class ShardEncoder:
    """Gives the vectors of texts as they are stored, and tables with them."""

    encoder: Encoder
    options: CorpusOptions
    columns: Columns

    @property
    def facts(self) -> dict[str, Any]:
        """What makes the vectors, as JSON values."""
        return vector_facts(self.encoder, self.options.vectors, self._prefix)

    def encode(self, shards: Iterable[list[str]], advance: Advance) -> Iterator[Encoded]:
        """The vectors of each list of texts; the next list is taken while one is computed.

        The encoder sorts texts by length in windows of thousands, and more gains nothing.
        """
        return map(self._encoded, encode_groups(self.encoder, shards, self._prefix, advance))

    def _encoded(self, group: EncodedGroup) -> Encoded:
        return Encoded(group.windows, group.tally, self.options.vectors, self.encoder.full.dims)

    @property
    def _prefix(self) -> str:
        return self.encoder.reader.prefix(self.options.prompt_name, self.options.prompt)

    def schema(self, shard: Mapping[str, Any]) -> Any:
        """The columns of a table and what is said about it: what made the vectors, and what is known of the shard."""
        arrow = importlib.import_module("pyarrow")
        kind = self.options.vectors
        numbers = arrow.from_numpy_dtype(STORAGE_TYPES[kind])
        vector = arrow.list_(numbers, stored_columns(self.encoder.full.dims, kind))
        about = json.dumps({**self.facts, "shard": dict(shard)}, ensure_ascii=False)
        return arrow.schema([*self.columns.types.items(), (VECTOR, vector)], {METADATA_KEY: about})

    def table(self, rows: ShardRows, vectors: Stored, shard: Mapping[str, Any]) -> Any:
        """Rows with their vectors."""
        arrow, schema = importlib.import_module("pyarrow"), self.schema(shard)
        made = [typed_array(name, rows.columns[name], kind) for name, kind in self.columns.types.items()]
        width = schema.field(VECTOR).type.list_size
        made.append(arrow.FixedSizeListArray.from_arrays(arrow.array(vectors.reshape(-1)), width))
        return arrow.table(made, schema)
