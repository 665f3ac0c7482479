"""The folder that `embed_corpus` writes, and the file in it that says what it is made of.

    part-000000.parquet …        one file for each shard: `id`, the columns that are kept, `vector`
    _corpus.json                 the model and options, the sources with their fingerprints, the shards, the counts
    _bad_rows/part-000000.jsonl  the rows of a shard that were left out, with reasons; no file if there are none

Readers of Parquet datasets leave out names that begin with an underscore. A part that is there is complete, and says
in its metadata what was counted while it was made, so that nothing else has to be written for a run to go on.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from demitasse.corpora.shards import Shard
from demitasse.corpora.sources import Source, changed
from demitasse.data.parquet_vectors import METADATA_KEY
from demitasse.errors import DataError
from demitasse.host.atomic import new_file
from demitasse.host.fields import Fields
from demitasse.host.json_files import read_result, with_header

MANIFEST, BAD_ROWS, LOCK = "_corpus.json", "_bad_rows", "_writer.lock"
PART = ".parquet"
_MAKER = "demitasse embed"


@dataclass(frozen=True)
class Counts:
    """What became of rows."""

    rows: int = 0  # that have a vector now
    tokens: int = 0  # that the model was given
    truncated: int = 0  # texts
    empty: int = 0
    duplicates: int = 0
    bad: int = 0

    def plus(self, other: Counts) -> Counts:
        """The sum of both."""
        mine, theirs = asdict(self), asdict(other)
        return Counts(**{name: mine[name] + theirs[name] for name in mine})

    @property
    def read(self) -> int:
        """All rows."""
        return self.rows + self.empty + self.duplicates + self.bad


def total(counts: Iterable[Counts]) -> Counts:
    """The sum of counts.

    >>> total([Counts(rows=2, empty=1), Counts(rows=3)]).read
    6
    """
    whole = Counts()
    for one in counts:
        whole = whole.plus(one)
    return whole


@dataclass(frozen=True)
class Manifest:
    """What a dataset of vectors is made of."""

    facts: Mapping[str, Any]  # what makes the vectors
    options: Mapping[str, Any]
    sources: tuple[Source, ...]
    shards: tuple[Shard, ...]
    counts: tuple[Counts, ...] = field(default=())  # of each shard, once all are complete

    @property
    def complete(self) -> bool:
        """Whether all shards are there."""
        return len(self.counts) == len(self.shards)

    def difference(self, facts: Mapping[str, Any], options: Mapping[str, Any], sources: Sequence[Source]) -> str | None:
        """What would be different if it were made again; `None` if nothing would be."""
        mine, theirs = {**self.facts, **self.options}, {**facts, **options}
        for name in (*theirs, *mine):
            if mine.get(name) != theirs.get(name):
                return "the model is another" if name in ("fingerprint", "model") else f"{name} is another"
        return changed(self.sources, sources)

    def write(self, folder: Path) -> None:
        """Write it to a folder, whole or not at all."""
        shards = [[*asdict(shard).values()][1:] for shard in self.shards]
        plain = {
            "complete": self.complete,
            "facts": dict(self.facts),
            "options": dict(self.options),
            "total": asdict(total(self.counts)) if self.complete else None,
            "sources": [asdict(source) for source in self.sources],
            "shards": shards,
            "counts": [[*asdict(one).values()] for one in self.counts],
        }
        with new_file(folder / MANIFEST) as file:
            text = json.dumps(with_header("corpus", plain), ensure_ascii=False, indent=None)
            file.write(text.encode("utf-8", "backslashreplace"))

    @classmethod
    def read(cls, folder: Path) -> Manifest | None:
        """The manifest of a folder, if it has one."""
        path = folder / MANIFEST
        if not path.is_file():
            return None
        plain = read_result(path, "corpus", _MAKER)
        fields = Fields(plain, str(path), f"remove that folder and run {_MAKER} again", DataError)
        sources = [
            Source(
                one.name("path"),
                one.text("format"),
                one.flag("packed"),
                one.whole("bytes"),
                one.whole("modified"),
                one.text("digest"),
            )
            for one in fields.each("sources")
        ]
        shards = [Shard(number, *row) for number, row in enumerate(_rows(fields, "shards", 6))]
        if any(shard.source >= len(sources) for shard in shards):
            raise fields.problem("has a shard of a source that it does not have")
        counts = [Counts(*row) for row in _rows(fields, "counts", 6)]
        facts, options = fields.inside("facts").all(), fields.inside("options").all()
        return cls(facts, options, tuple(sources), tuple(shards), tuple(counts))

    def with_counts(self, counts: Sequence[Counts]) -> Manifest:
        """The same, complete."""
        return replace(self, counts=tuple(counts))


def _rows(fields: Fields, name: str, width: int) -> list[list[int]]:
    """A list of lists of whole numbers."""
    rows = fields.plain(name)
    if not isinstance(rows, list) or not all(_is_row(row, width) for row in rows):
        raise fields.problem(f"has {name} that are not lists of {width} whole numbers")
    return rows


def _is_row(row: object, width: int) -> bool:
    return isinstance(row, list) and len(row) == width and all(type(one) is int and one >= 0 for one in row)


def own_files(folder: Path) -> Collection[str]:
    """The files of `folder` that belong to a dataset of vectors; none if it is not one."""
    if not (folder / MANIFEST).is_file():
        return set()
    bad = [f"{BAD_ROWS}/{path.name}" for path in (folder / BAD_ROWS).glob("part-*.jsonl")]
    return {MANIFEST, LOCK, BAD_ROWS, *bad, *(path.name for path in folder.glob(f"part-*{PART}"))}


def counts_of(path: Path) -> Counts | None:
    """What a part says it was made of, if it is there."""
    if not path.is_file():
        return None
    parquet: Any = importlib.import_module("pyarrow.parquet")
    try:
        about = json.loads((parquet.read_schema(path).metadata or {})[METADATA_KEY.encode()])
        return Counts(**about["shard"]["counts"])
    except (OSError, ValueError, KeyError, TypeError):  # not what this program wrote: it is made again
        return None
