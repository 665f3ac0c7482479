"""Training data: pairs, triples, groups and scored pairs of texts, read from files of any size.

One pass over a source checks every row and writes it to a store that moves to disk when it grows; after that a row is
read where it lies. So every format behaves alike, and memory does not depend on the size of the data.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from demitasse.errors import DataError
from demitasse.progress import progress_bar
from demitasse.row_files import BadRowError, Store, records
from demitasse.texts import checked

REMEMBERED = 100_000  # texts that `Pairs.texts` does not give again
_CLASSED = ("premise", "hypothesis")  # their label says entailed, neutral or contradicted
# What the two texts of a row are called: ours first, then other libraries.
_NAMES = (
    ("anchor", "positive"),
    ("a", "b"),
    ("query", "positive"),
    ("text", "positive"),
    ("sentence1", "sentence2"),
    ("text1", "text2"),
    ("sent0", "sent1"),
    _CLASSED,
)
_NEGATIVE = re.compile(r"negatives?|negative_\d+|hard_neg")
_SCORES = ("score", "label")
_GROUPS = ("texts", "set")
_TARGETS = re.compile(r"anchor|positive|negatives?|negative_\d+|texts|a|b|score")


@dataclass(frozen=True)
class Row:
    """One row: (anchor, positive), (anchor, positive, negatives...), a group of paraphrases, or (a, b) and a score."""

    texts: tuple[str, ...]
    score: float | None = None


@dataclass(frozen=True, eq=False)
class Source:
    """The rows of one file, list or dataset."""

    name: str
    kind: str  # "pairs", "triples", "groups" or "scored"
    weight: float  # how often batches are drawn from it, relative to the others
    skipped: int  # bad rows that were left out
    texts_per_row: int  # of those in a batch: two are drawn from a group each time
    stored: Store

    @property
    def sha256(self) -> str:
        """The hash of the rows as they were read; the same for the same rows in any format."""
        return self.stored.sha256

    def __len__(self) -> int:
        return len(self.stored)

    def __getitem__(self, index: int) -> Row:
        values = self.stored[index]
        return Row(tuple(values[:2]), values[2]) if self.kind == "scored" else Row(tuple(values))


@dataclass(frozen=True)
class Pairs:
    """What `read_pairs` gives: the training data, source by source."""

    sources: tuple[Source, ...]

    def __len__(self) -> int:
        return sum(map(len, self.sources))

    def texts(self, limit: int | None = None) -> Iterator[str]:
        """The texts of all rows in their order, at most `limit`; most of those that occur again are left out."""
        return islice(self._texts(), limit)

    def describe(self) -> list[dict[str, Any]]:
        """What identifies the data, source by source, for the record of a run."""
        return [
            {
                "name": source.name,
                "kind": source.kind,
                "rows": len(source),
                "skipped": source.skipped,
                "weight": source.weight,
                "sha256": source.sha256,
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


def text_key(text: str) -> str:
    r"""What two texts have in common if they differ only in case and white space.

    >>> text_key(" A  Cup\n") == text_key("a cup")
    True
    """
    return " ".join(text.casefold().split())


def read_pairs(
    *sources: object,
    columns: Mapping[str, str] | None = None,
    weights: Sequence[float] | None = None,
    skip_bad_rows: bool = False,
) -> Pairs:
    """Training data from files (.jsonl, .csv, .tsv, .parquet, with .gz too), lists of rows, or Hugging Face datasets.

    The columns say what the rows of a source are: `anchor, positive`; `anchor, positive, negative`; `texts` (a list of
    paraphrases); or `anchor, positive, score`. Names that other libraries use are understood. With `columns`, which
    maps names in the source to these, only the columns it names are used. `weights`, one for each source, say how often
    batches are drawn from it; else that is its number of rows.

    >>> data = read_pairs([("a cup", "a mug"), ("a bean", "a seed")])
    >>> len(data), data.sources[0].kind, data.sources[0][1].texts
    (2, 'pairs', ('a bean', 'a seed'))
    """
    if not sources:
        raise DataError("no source was given; give at least one file, list of rows or dataset")
    if columns is not None:
        _check_columns(columns)
    if weights is not None:
        _check_weights(weights, len(sources))
    read = []
    for number, given in enumerate(sources):
        name = Path(given).name if isinstance(given, (str, os.PathLike)) else f"source {number}"
        weight = None if weights is None else weights[number]
        read.append(_Reader(name, columns, skip_bad_rows=skip_bad_rows).read(given, weight))
    return Pairs(tuple(read))


def _check_columns(columns: Mapping[str, str]) -> None:
    for target in columns.values():
        if not isinstance(target, str) or not _TARGETS.fullmatch(target):
            allowed = "anchor, positive, negative (or negative_1, negative_2, ...), negatives, texts, a, b and score"
            raise DataError(f"columns= maps to {target!r}; the names to map to are {allowed}")
    if len(set(columns.values())) < len(columns):
        raise DataError(f"columns= maps two columns to one name ({dict(columns)}); map each to a name of its own")


def _check_weights(weights: Sequence[float], count: int) -> None:
    if len(weights) != count:
        raise DataError(f"weights= has {len(weights)} numbers for {count} sources; give one for each source")
    for weight in weights:
        if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0 < weight < math.inf:
            raise DataError(f"weights= holds {weight!r}; every weight must be a finite number above 0")


class _Reader:
    """Reads one source: every row checked, and of the shape of the first good one."""

    def __init__(self, name: str, columns: Mapping[str, str] | None, *, skip_bad_rows: bool) -> None:
        self._name, self._columns, self._skip = name, columns, skip_bad_rows
        self._shape: tuple[str, int] | None = None  # kind, texts of a row in a batch
        self._columns_found = False

    def read(self, given: object, weight: float | None) -> Source:
        stored, skipped, first = Store(self._name), 0, ""
        with progress_bar(f"reading {self._name}", None) as advance:
            for number, (place, record) in enumerate(records(given, self._name), 1):
                try:
                    stored.append(self._values(record))
                except BadRowError as bad:
                    if not self._skip:
                        cure = bad.cure or "mend the row, or pass skip_bad_rows=True to leave such rows out"
                        raise DataError(f"{self._name} {place}: {bad}; {cure}") from None
                    skipped += 1
                    first = first or f"{place}: {bad}; {bad.cure or 'mend it'}"
                if number % 1024 == 0:
                    advance(1024)
        if self._shape is None:
            found = f"no good row among {skipped}: {first}" if skipped else "no rows; give a source with at least one"
            raise DataError(f"{self._name} has {found}")
        kind, texts = self._shape
        return Source(self._name, kind, float(len(stored) if weight is None else weight), skipped, texts, stored)

    def _values(self, record: Any) -> list[str | float]:
        """The texts of a row, and the score if it has one."""
        if isinstance(record, BadRowError):
            raise record
        if isinstance(record, (list, tuple)):
            record = _named(record)
        if not isinstance(record, Mapping):
            raise BadRowError(f"it is of type {type(record).__name__} where a row must be")
        row = {column: value for column, value in record.items() if value is not None}
        if self._columns is not None:
            row = self._renamed(row, record)
        kind, values = _interpreted(row)
        shape = (kind, 2 if kind in ("groups", "scored") else len(values))
        if self._shape is None:
            self._shape = shape
        if shape != self._shape:
            raise BadRowError(f"it is of kind {_shown(*shape)} and the first row is of kind {_shown(*self._shape)}")
        return values

    def _renamed(self, row: Mapping[str, Any], record: Mapping[str, Any]) -> dict[str, Any]:
        columns = self._columns or {}
        absent = next((column for column in columns if column not in row), None)
        if absent is not None and absent not in record and not self._columns_found:
            there = ", ".join(map(str, record))
            raise DataError(f"{self._name} has no column {absent!r}, which columns= names; it has {there}")
        self._columns_found = True  # from here on a column that is not there is the mistake of one row
        if absent is not None:
            raise BadRowError(f"{absent!r} is missing")
        return {target: row[column] for column, target in columns.items()}


def _named(values: Sequence[Any]) -> dict[str, Any]:
    """The columns of a row that has no names: anchor, positive, and negatives or a score."""
    if len(values) == 3 and not isinstance(values[2], str):
        return dict(zip(("anchor", "positive", "score"), values, strict=True))
    return {**dict(zip(("anchor", "positive"), values, strict=False)), "negatives": values[2:]}


def _interpreted(row: Mapping[str, Any]) -> tuple[str, list[str | float]]:
    """The kind of a row, and its texts and score."""
    group = next((column for column in _GROUPS if column in row), None)
    if group is not None:
        different: dict[str, str] = {}
        for text in _listed(row, group):
            different.setdefault(text_key(text), text)
        if len(different) < 2:
            raise BadRowError(f"{group!r} has fewer than 2 different texts")
        return "groups", [*different.values()]
    names = next((pair for pair in _NAMES if all(column in row for column in pair)), None)
    if names is None:
        raise _unknown(row)
    texts: list[str | float] = [_text(row[column], column) for column in names]
    negatives = [text for column in row if _NEGATIVE.fullmatch(str(column)) for text in _listed(row, column)]
    if negatives:
        return "triples", [*texts, *negatives]
    score = next((column for column in _SCORES if column in row), None)
    if score is None:
        return "pairs", texts
    if names == _CLASSED and score == "label":
        cure = "keep the entailed rows only and pass columns={'premise': 'anchor', 'hypothesis': 'positive'}"
        raise BadRowError("'label' beside 'premise' and 'hypothesis' is a class and not a score", cure)
    return "scored", [*texts, _number(row[score], score)]


def _unknown(row: Mapping[str, Any]) -> BadRowError:
    for first, second in _NAMES:
        if first in row or second in row:
            return BadRowError(f"{second if first in row else first!r} is missing")
    cure = "name them anchor and positive (and negative or score) or texts, or say which is which with columns="
    return BadRowError(f"its columns are {', '.join(map(str, row)) or 'all empty'}", cure)


def _listed(row: Mapping[str, Any], column: str) -> list[str]:
    """The texts of a column that holds one or, mostly, a list of them."""
    values = row[column]
    if isinstance(values, str) and column not in _GROUPS:
        values = [values]
    if not isinstance(values, (list, tuple)):
        wanted = "a list of strings" if column in _GROUPS else "a string"
        raise BadRowError(f"{column!r} holds something of type {type(values).__name__} where {wanted} must be")
    return [_text(value, column) for value in values]


def _text(value: Any, column: str) -> str:
    if not isinstance(value, str):
        raise BadRowError(f"{column!r} holds something of type {type(value).__name__} where a string must be")
    if not value or value.isspace():
        raise BadRowError(f"{column!r} is empty")
    return next(checked([value]))


def _number(value: Any, column: str) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise BadRowError(f"{column!r} is {value!r:.40} where a finite number must be")
    return number


def _shown(kind: str, texts: int) -> str:
    return f"{kind} (negatives: {texts - 2})" if kind == "triples" else kind
