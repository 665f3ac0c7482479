"""How far a cut agrees with the full model on texts that nobody has labelled. Pure numpy.

Two things are compared, each between 0 and 100 (the first may be below 0), and agreement is their mean:

- Spearman's correlation of cosines: over many pairs of texts, does the cut call the same pairs similar?
- neighbours: of the ten texts that are nearest to a text, how many are among the full model's ten?

The first sees the whole range from unlike to alike, the second the near end, which is all that a search shows. Neither
says that the full model is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from demitasse.encoding.text_checks import checked
from demitasse.encoding.vectors import Vectors
from demitasse.errors import DataError
from demitasse.evaluation.metrics import Values, spearman
from demitasse.evaluation.tasks import rankings

NEIGHBOURS = 10
PAIRS = 20_000  # whose cosines are compared, at most
TEXTS = 2_000  # that are looked at, at most
ASKED = 500  # of them whose neighbours are sought, at most
LEAST_TEXTS = 50  # with fewer, ten neighbours are most of the texts

_Places = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Reference:
    """What the full model says about texts: the rows that it gives them.

    >>> rows = np.random.default_rng(0).normal(size=(60, 16)).astype(np.float32)
    >>> reference = Reference(rows / np.linalg.norm(rows, axis=1, keepdims=True))
    >>> reference.agreement(reference.rows)
    100.0
    """

    rows: Vectors

    def agreement(self, rows: Vectors) -> float:
        """How far `rows`, of unit length and for the same texts, say the same; x 100."""
        return 50 * (spearman(self._cosines(rows), self._own_cosines) + self._shared(rows))

    @cached_property
    def _pairs(self) -> tuple[_Places, _Places]:
        """Pairs of different texts: all there are, or as many as are looked at, always the same."""
        count = len(self.rows)
        if count * (count - 1) // 2 <= PAIRS:
            first, second = np.triu_indices(count, 1)
            return first, second
        generator = np.random.default_rng(0)
        first = generator.integers(count, size=PAIRS)
        return first, (first + generator.integers(1, count, size=PAIRS)) % count

    @cached_property
    def _asked(self) -> _Places:
        """The texts whose neighbours are sought, at even steps."""
        return np.unique(np.linspace(0, len(self.rows) - 1, min(ASKED, len(self.rows))).astype(np.int64))

    @cached_property
    def _own_cosines(self) -> Values:
        return self._cosines(self.rows)

    @cached_property
    def _own_neighbours(self) -> list[set[int]]:
        return self._neighbours(self.rows)

    def _cosines(self, rows: Vectors) -> Values:
        first, second = self._pairs
        cosines: Values = np.einsum("ij,ij->i", rows[first], rows[second]).round(6)  # beyond that is rounding
        return cosines

    def _neighbours(self, rows: Vectors) -> list[set[int]]:
        """The nearest others of each text that is asked about."""
        found = rankings(rows[self._asked], rows, NEIGHBOURS + 1)  # one more, for a text is also near itself
        return [
            {*[place for place in near if place != own][:NEIGHBOURS]}
            for own, near in zip(self._asked.tolist(), found, strict=True)
        ]

    def _shared(self, rows: Vectors) -> float:
        shared = [len(ours & full) for ours, full in zip(self._neighbours(rows), self._own_neighbours, strict=True)]
        return float(np.mean(shared)) / NEIGHBOURS


def usable_texts(texts: Sequence[str]) -> list[str]:
    """Those of `texts` that agreement is measured on: none twice and none empty, at even steps if there are many."""
    different = [text for text in dict.fromkeys(checked(texts)) if text.strip()]
    if len(different) < LEAST_TEXTS:
        said = f"{len(different)} different texts are too few to tell how far a cut agrees with the full model"
        raise DataError(f"{said}; give at least {LEAST_TEXTS}, of the kind you will encode")
    count = min(TEXTS, len(different))
    return [different[number * len(different) // count] for number in range(count)]
