"""What is made of a corpus: which columns are read and kept, and how the vectors are stored."""

from __future__ import annotations

from dataclasses import dataclass

from demitasse.arguments import check_fields, whole
from demitasse.encoding.vectors import check_kind
from demitasse.errors import DataError

VECTOR, ID = "vector", "id"
_SHARD_ROWS = 100_000


@dataclass(frozen=True)
class CorpusOptions:
    """How `embed_corpus` reads its sources and what it writes.

    >>> CorpusOptions(vectors="int8", keep=["title"]).keep
    ('title',)
    """

    column: str | None = None  # with the texts; None: `text`, or the only one that holds strings
    id: str | None = None  # the column with the ids; None: `id` or `_id` if there is one, else rows are numbered from 0
    keep: tuple[str, ...] = ()  # columns to write beside each vector
    vectors: str = "float32"  # how they are stored
    deduplicate: bool = False  # of equal texts, only the first is written
    prompt_name: str | None = None
    prompt: str | None = None
    shard_rows: int = _SHARD_ROWS  # about as many rows go into one file; a killed run loses at most the last ones

    def __post_init__(self) -> None:
        check_fields(self)
        check_kind(self.vectors)
        whole("shard_rows", self.shard_rows, least=1)
        object.__setattr__(self, "keep", tuple(dict.fromkeys(self.keep)))
        taken = next((name for name in self.keep if name in (VECTOR, ID) and name != self.id), None)
        if taken is not None:
            raise DataError(f"the column {taken!r} cannot be kept beside the column {taken!r} of the output; rename it")
