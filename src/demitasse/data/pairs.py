"""Training data: pairs, triples, groups, scored pairs and plain texts, read from files of any size.

One pass over a source checks every row and writes it to a store, which moves to disk when it grows; from then on rows
are read from the store. So every format behaves alike, and memory use does not depend on the size of the data.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from demitasse.arguments import flag, number, several, whole
from demitasse.arguments import text as text_of
from demitasse.data.columns import PLAIN, by_column, kind_and_values, kind_in_words
from demitasse.data.row_readers import BadRowError, records
from demitasse.data.row_store import Store
from demitasse.encoding.tables import listed
from demitasse.encoding.teacher_space import ROLES
from demitasse.errors import DataError, shown
from demitasse.host.progress import progress_bar

REMEMBERED = 100_000  # texts that `Pairs.texts` remembers, to leave out duplicates
_TARGETS = re.compile(r"anchor|positive|negatives?|negative_\d+|texts|text|a|b|score")


@dataclass(frozen=True)
class Example:
    """(anchor, positive), (anchor, positive, negatives...), paraphrases, (a, b) and a score, or one text."""

    texts: tuple[str, ...]
    score: float | None = None


class Rows(Protocol):
    """The values of each row: its texts (or their numbers), and its score if it has one."""

    @property
    def sha256(self) -> str:
        """The hash of all rows in order."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> list[Any]: ...


@dataclass(frozen=True, eq=False)
class Source:
    """The examples of one file, list or dataset, one for each row."""

    name: str
    kind: str  # "pairs", "triples", "groups", "scored" or "plain"
    weight: float  # how often batches come from it, relative to the others
    skipped: int  # bad rows that were left out
    stored: Rows
    roles: tuple[str, ...] = ()  # what the texts of each column are to a teacher that has prompts, if that was said

    @property
    def paired(self) -> bool:
        """Whether its examples say which texts belong together; plain texts do not."""
        return self.kind != PLAIN

    @property
    def sha256(self) -> str:
        """The hash of the texts and scores; the same for the same data in any format."""
        return self.stored.sha256

    def __len__(self) -> int:
        return len(self.stored)

    def __getitem__(self, index: int) -> Example:
        values = self.stored[index]
        return Example(tuple(values[:2]), values[2]) if self.kind == "scored" else Example(tuple(values))


@dataclass(frozen=True)
class Pairs:
    """What `read_pairs` returns: the training data, source by source."""

    sources: tuple[Source, ...]

    def __len__(self) -> int:
        return sum(map(len, self.sources))

    def texts(self, limit: int | None = None) -> Iterator[str]:
        """The texts of all examples in order, at most `limit`; most duplicates are left out."""
        return islice(self._texts(), None if limit is None else min(whole("limit", limit, 0), sys.maxsize))

    def describe(self) -> list[dict[str, Any]]:
        """The facts that identify each source, for the record of a run."""
        return [
            {
                "name": source.name,
                "kind": source.kind,
                "rows": len(source),
                "skipped": source.skipped,
                "weight": source.weight,
                "sha256": source.sha256,
                **({"roles": list(source.roles)} if source.roles else {}),
            }
            for source in self.sources
        ]

    def _texts(self) -> Iterator[str]:
        seen: set[str] = set()
        for source in self.sources:
            for index in range(len(source)):
                for text in source[index].texts:
                    if text not in seen:
                        if len(seen) >= REMEMBERED:
                            seen.clear()
                        seen.add(text)
                        yield text


def read_pairs(
    *sources: object,
    columns: Mapping[str, str] | None = None,
    weights: Sequence[float] | None = None,
    roles: Sequence[str] | None = None,
    skip_bad_rows: bool = False,
) -> Pairs:
    """Read training data from files (.jsonl, .json, .csv, .tsv, .parquet, .gz too), lists of rows, tables or datasets.

    A table is a DataFrame of pandas or polars, an Arrow table or a dict of columns; a dataset is one of Hugging Face.
    A .json file has one row per line or is an array of rows.
    The columns say what the rows of a source are: `anchor, positive`; `anchor, positive, negative`; `texts` (a list of
    paraphrases); or `anchor, positive, score`. The names that other libraries use are understood too. `columns` maps
    names in the source to these, and then only the columns it names are used. `weights`, one per source, say how often
    batches come from it; the default is its number of rows. A .txt file (one text per line), a list of strings or a
    single column `text` are plain texts, which `Elastic` and `Aligned` distil on. `roles`, one per source, say what its
    columns are to teachers that have prompts: "query/document", "sentence", or "" for none.

    >>> data = read_pairs([("a cup", "a mug"), ("a bean", "a seed")])
    >>> len(data), data.sources[0].kind, data.sources[0][1].texts
    (2, 'pairs', ('a bean', 'a seed'))
    """
    if not sources:
        raise DataError("no training data was given; give at least one file, list of rows, table or dataset")
    skip_bad_rows = flag("skip_bad_rows", skip_bad_rows)
    if columns is not None:
        _check_columns(columns)
    if weights is not None:
        weights = several("weights", weights, partial(number, above=0))
        _check_weights(weights, len(sources))
    parsed = [()] * len(sources) if roles is None else _parsed_roles(roles, len(sources))
    read = []
    for place, given in enumerate(sources):
        name = Path(given).name if isinstance(given, (str, os.PathLike)) else f"source {place}"
        weight = None if weights is None else weights[place]
        found = _Reader(name, columns, skip_bad_rows=skip_bad_rows).read(given, weight)
        read.append(replace(found, roles=parsed[place]))
    return Pairs(tuple(read))


def _check_columns(columns: Mapping[str, str]) -> None:
    if not isinstance(columns, Mapping):
        raise DataError(f"columns must map names of columns, such as {{'question': 'anchor'}}, not {shown(columns)}")
    for target in columns.values():
        if not isinstance(target, str) or not _TARGETS.fullmatch(target):
            allowed = "anchor, positive, negative (or negative_1, negative_2, ...), negatives, texts, a, b and score"
            raise DataError(f"columns= maps to {shown(target)}, which is not one of the names to map to: {allowed}")
    if len(set(columns.values())) < len(columns):
        raise DataError(f"columns= maps two columns to one name ({dict(columns)}); map each to its own name")


def _parsed_roles(roles: Sequence[str], count: int) -> list[tuple[str, ...]]:
    given = several("roles", roles, text_of)
    if len(given) != count:
        raise DataError(f"roles= has {len(given)} entries for {count} sources; give one per source, '' for none")
    parsed = [tuple(filter(None, one.split("/"))) for one in given]
    for one, words in zip(given, parsed, strict=True):
        if not {*words} <= {*ROLES}:
            raise DataError(f"roles= has {shown(one)}; write {', '.join(ROLES)}, or one per column: query/document")
    return parsed


def _check_weights(weights: Sequence[float], count: int) -> None:
    if len(weights) != count:
        raise DataError(f"weights= has {len(weights)} numbers for {count} sources; give one per source")


class _Reader:
    """Reads one source: every row is checked, and must be of the same shape as the first good one."""

    def __init__(self, name: str, columns: Mapping[str, str] | None, *, skip_bad_rows: bool) -> None:
        self._name, self._columns, self._skip = name, columns, skip_bad_rows
        self._shape: tuple[str, int] | None = None  # kind, texts per example in a batch
        self._columns_seen = False

    def read(self, given: object, weight: float | None) -> Source:
        stored, skipped, first = Store(self._name), 0, ""
        with progress_bar(f"reading {self._name}", None) as advance:
            for number, (location, row) in enumerate(records(given, self._name), 1):
                try:
                    stored.append(self._values(row))
                except BadRowError as bad:
                    if not self._skip:
                        cure = bad.cure or "fix the row, or pass skip_bad_rows=True to skip such rows"
                        raise DataError(f"{self._name} {location}: {bad}; {cure}") from None
                    skipped += 1
                    first = first or f"{location}: {bad}; {bad.cure or 'fix it'}"
                if number % 1024 == 0:
                    advance(1024)
        if self._shape is None:
            if skipped:
                raise DataError(f"{self._name} has no good row among {skipped}; the first problem is {first}")
            raise DataError(f"{self._name} has no rows; give a source with at least one")
        kind, _ = self._shape
        return Source(self._name, kind, float(len(stored) if weight is None else weight), skipped, stored)

    def _values(self, row: Any) -> list[str | float]:
        """The texts of a row, and the score if it has one."""
        if isinstance(row, BadRowError):
            raise row
        named = by_column(row)
        filled = {column: value for column, value in named.items() if value is not None}
        if self._columns is not None:
            filled = self._renamed(filled, named)
        kind, values = kind_and_values(filled)
        shape = (kind, 2 if kind in ("groups", "scored") else len(values))
        if self._shape is None:
            self._shape = shape
        if shape != self._shape:
            expected = kind_in_words(*self._shape)
            raise BadRowError(f"it is of kind {kind_in_words(*shape)} but the first row is of kind {expected}")
        return values

    def _renamed(self, filled: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
        """The columns that `columns=` names, by the names it maps them to; `filled` is `row` without its Nones."""
        columns = self._columns or {}
        missing = next((column for column in columns if column not in filled), None)
        if missing is not None and missing not in row and not self._columns_seen:
            raise DataError(f"{self._name} has no column {missing!r}, which columns= names; it has {listed(row)}")
        self._columns_seen = True  # from here on a missing column is the mistake of one row
        if missing is not None:
            raise BadRowError(f"{missing!r} is missing")
        return {target: filled[column] for column, target in columns.items()}
