"""Rows in, a table of vectors out: what is done with a shard on one machine, and with a batch on many."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from demitasse.corpora.columns import Columns
from demitasse.corpora.options import VECTOR, CorpusOptions
from demitasse.corpora.shard_rows import ShardRows
from demitasse.data.parquet_vectors import METADATA_KEY, typed_array, vector_facts
from demitasse.encoding.encoder import Encoder
from demitasse.encoding.token_tally import TokenTally
from demitasse.encoding.vectors import STORAGE_TYPES, Stored, Vectors, store
from demitasse.encoding.vectors import columns as stored_columns


@dataclass(frozen=True)
class Encoded:
    """Vectors as they come from the model."""

    vectors: Vectors
    kind: str

    def stored(self) -> Stored:
        """The vectors as they are stored."""
        return store(self.vectors, self.kind) if len(self.vectors) else _none(self.vectors, self.kind)


def _none(vectors: Vectors, kind: str) -> Stored:
    return np.empty((0, stored_columns(vectors.shape[1], kind)), STORAGE_TYPES[kind])


@dataclass(frozen=True)
class ShardEncoder:
    """Gives the vectors of texts as they are stored, and tables with them."""

    encoder: Encoder
    options: CorpusOptions
    columns: Columns

    @property
    def facts(self) -> dict[str, Any]:
        """What makes the vectors, as JSON values."""
        options = self.options
        prompt = self.encoder.reader.prefix(options.prompt_name, options.prompt)
        return vector_facts(self.encoder, options.vectors, prompt)

    def encode(self, texts: list[str], tally: TokenTally, advance: Callable[[int], None]) -> Encoded:
        """The vectors of texts; the encoder sorts them by length in windows of thousands, and more gains nothing."""
        options, full = self.options, self.encoder.full
        made = self.encoder.encode_cuts(
            texts,
            [full],
            prompt_name=options.prompt_name,
            prompt=options.prompt,
            tally=tally,
            progress=advance,
        )[full]
        return Encoded(made, options.vectors)

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
