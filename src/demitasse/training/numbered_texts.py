"""The texts of training data, each different one under a number.

Drawing a batch then reads no text: its rows are a few numbers, and what is known of a text (its token ids, its
teachers' vectors) is found under its number, on the device that uses it.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from demitasse.data.columns import text_key
from demitasse.data.pairs import Pairs, Source
from demitasse.host.progress import progress_bar

Numbers = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
_TEXT_BITS, _ROW_BITS = 14, 40
_ADVANCE = 1024  # rows between two moves of the progress bar


@dataclass(frozen=True)
class Reading:
    """How a text is read: which of the student's prompts comes before it, and what it is to a teacher."""

    prompt: int = 0
    role: str = ""


class NumberedRows:
    """The rows of a source with numbers in place of texts; their scores stay."""

    def __init__(self, sha256: str) -> None:
        self._sha256 = sha256
        self._numbers, self._ends, self._scores = array("q"), array("q"), array("d")

    def append(self, numbers: Sequence[int], score: float | None) -> None:
        """Add a row."""
        self._numbers.extend(numbers)
        self._ends.append(len(self._numbers))
        if score is not None:
            self._scores.append(score)

    @property
    def sha256(self) -> str:
        """That of the rows they were made from."""
        return self._sha256

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, index: int) -> list[Any]:
        begin = self._ends[index - 1] if index else 0
        numbers = self._numbers[begin : self._ends[index]].tolist()
        return [*numbers, self._scores[index]] if self._scores else numbers


@dataclass
class NumberedTexts:
    """Every different text of `origin`; `data` is the same data, with numbers in place of texts.

    >>> from demitasse.data.pairs import read_pairs
    >>> numbered = number_texts(read_pairs([("a cup", "a mug"), ("a mug", "a bowl")]))
    >>> numbered.data.sources[0][1].texts, len(numbered), [*numbered.texts(np.array([0, 2]))]
    ((1, 2), 3, ['a cup', 'a bowl'])
    """

    origin: Pairs
    data: Pairs
    readings: list[Reading]
    _hashes: array[int] = field(default_factory=lambda: array("Q"))  # of each text as it is
    _shared: array[int] = field(default_factory=lambda: array("Q"))  # of each text whatever its case and white space
    _places: array[int] = field(default_factory=lambda: array("Q"))  # where each occurs first
    _read_as: array[int] = field(default_factory=lambda: array("H"))  # the index of its reading

    def __len__(self) -> int:
        """How many different texts there are."""
        return len(self._hashes)

    def key(self, number: int) -> int:
        """A number that texts share if they differ only in case and white space, for the sampler."""
        return self._shared[number]

    @property
    def hashes(self) -> Hashes:
        """The hash of each text, the same in every run."""
        return np.frombuffer(self._hashes, np.uint64)

    @property
    def read_as(self) -> npt.NDArray[np.uint16]:
        """For each text, the index of its reading."""
        return np.frombuffer(self._read_as, np.uint16)

    def texts(self, numbers: Numbers) -> Iterator[str]:
        """The texts under `numbers`; in increasing order, each row of the data is read once."""
        known: tuple[int, int] = (-1, -1)
        values: list[Any] = []
        for number in numbers.tolist():
            place = self._places[number]
            row = place >> (_TEXT_BITS + _ROW_BITS), (place >> _TEXT_BITS) & ((1 << _ROW_BITS) - 1)
            if row != known:
                known, values = row, self.origin.sources[row[0]].stored[row[1]]
            yield values[place & ((1 << _TEXT_BITS) - 1)]


def number_texts(data: Pairs, prompts: int = 0) -> NumberedTexts:
    """`data` with a number for each different text, in one pass.

    `prompts` says how many the student has: of anchors, positives and negatives, the last one repeated. A text that is
    read in two ways (with two prompts, or as a query here and a document there) has two numbers.
    """
    found = NumberedTexts(data, data, [])
    known: dict[int, int] = {}  # reading and hash, in one number, to the number of the text
    readings: dict[Reading, int] = {}
    sources = []
    with progress_bar("numbering texts", len(data)) as advance:
        for place, source in enumerate(data.sources):
            rows = NumberedRows(source.sha256)
            columns = _Columns(source, prompts, readings)
            for row in range(len(source)):
                values = source.stored[row]
                texts, score = (values[:2], values[2]) if source.kind == "scored" else (values, None)
                numbers = []
                for index, text in enumerate(texts):
                    reading, name = columns.reading(index), _hash(text)
                    number = known.setdefault(reading << 64 | name, len(known))
                    if number == len(found._hashes):
                        found._hashes.append(name)
                        found._shared.append(_hash(text_key(text)))
                        found._places.append((place << (_TEXT_BITS + _ROW_BITS)) | (row << _TEXT_BITS) | index)
                        found._read_as.append(reading)
                    numbers.append(number)
                rows.append(numbers, score)
                if row % _ADVANCE == 0:
                    advance(min(_ADVANCE, len(source) - row))
            sources.append(replace(source, stored=rows))
    found.data, found.readings = Pairs(tuple(sources)), list(readings)
    return found


class _Columns:
    """The reading of each column of a source; texts of a group, which may be in either column, have the first's."""

    def __init__(self, source: Source, prompts: int, known: dict[Reading, int]) -> None:
        self._source, self._prompts, self._known = source, prompts, known
        self._found: list[int] = []

    def reading(self, column: int) -> int:
        """The index of the reading of a column."""
        while len(self._found) <= column:
            which = 0 if self._source.kind == "groups" else len(self._found)
            roles = self._source.roles
            role = roles[min(which, len(roles) - 1)] if roles else ""
            reading = Reading(max(0, min(which, self._prompts - 1)), role)
            self._found.append(self._known.setdefault(reading, len(self._known)))
        return self._found[column]


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def prompted(hashes: Hashes, prompt: str) -> Hashes:
    """The hashes of texts with `prompt` before each, given those of the texts alone."""
    return hashes if not prompt else hashes ^ np.uint64(_hash(f"prompt {prompt}"))
