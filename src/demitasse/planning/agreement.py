"""How far a cut agrees with the full model on texts without labels. Pure numpy.

Agreement is the mean of two numbers, each between 0 and 100 (the first may be below 0):

- Spearman's correlation of cosines: over many pairs of texts, does the cut call the same pairs similar?
- neighbours: how many of a text's ten nearest texts are also among the full model's ten?

The first covers the whole range from unlike to alike, the second the near end, which is all that a search shows.
Neither says that the full model is right.
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
PAIRS = 20_000  # maximum number of pairs whose cosines are compared
TEXTS = 2_000  # maximum number of texts that are looked at
ASKED = 500  # maximum number of them whose neighbours are compared
LEAST_TEXTS = 50  # with fewer, ten neighbours are most of the texts

_Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Reference:
    """The full model's vectors of some texts, to compare others with.

    >>> vectors = np.random.default_rng(0).normal(size=(60, 16)).astype(np.float32)
    >>> reference = Reference(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    >>> reference.agreement(reference.vectors)
    100.0
    """

    vectors: Vectors

    def agreement(self, vectors: Vectors) -> float:
        """How far unit `vectors` of the same texts agree, x 100."""
        return 50 * (spearman(self._cosines(vectors), self._own_cosines) + self._shared_neighbours(vectors))

    @cached_property
    def _pairs(self) -> tuple[_Indices, _Indices]:
        """Pairs of different texts: all of them or, if there are too many, a fixed random sample."""
        count = len(self.vectors)
        if count * (count - 1) // 2 <= PAIRS:
            first, second = np.triu_indices(count, 1)
            return first, second
        generator = np.random.default_rng(0)
        first = generator.integers(count, size=PAIRS)
        return first, (first + generator.integers(1, count, size=PAIRS)) % count

    @cached_property
    def _asked(self) -> _Indices:
        """The texts whose neighbours are compared, evenly spaced."""
        return np.unique(np.linspace(0, len(self.vectors) - 1, min(ASKED, len(self.vectors))).astype(np.int64))

    @cached_property
    def _own_cosines(self) -> Values:
        return self._cosines(self.vectors)

    @cached_property
    def _own_neighbours(self) -> list[set[int]]:
        return self._neighbours(self.vectors)

    def _cosines(self, vectors: Vectors) -> Values:
        first, second = self._pairs
        cosines: Values = np.einsum("ij,ij->i", vectors[first], vectors[second]).round(6)  # the rest is rounding error
        return cosines

    def _neighbours(self, vectors: Vectors) -> list[set[int]]:
        """The nearest other texts of each text that is asked about."""
        nearest = rankings(vectors[self._asked], vectors, NEIGHBOURS + 1)  # one more, since a text is near itself
        return [
            {*[index for index in near if index != own][:NEIGHBOURS]}
            for own, near in zip(self._asked.tolist(), nearest, strict=True)
        ]

    def _shared_neighbours(self, vectors: Vectors) -> float:
        neighbours = zip(self._neighbours(vectors), self._own_neighbours, strict=True)
        return float(np.mean([len(ours & full) for ours, full in neighbours])) / NEIGHBOURS


def usable_texts(texts: Sequence[str]) -> list[str]:
    """The texts that agreement is measured on: no duplicates, none empty, evenly spaced if there are too many."""
    different = [text for text in dict.fromkeys(checked(texts)) if text.strip()]
    if len(different) < LEAST_TEXTS:
        raise DataError(
            f"{len(different)} different texts are too few to measure agreement with the full model; "
            f"give at least {LEAST_TEXTS}, of the kind you will encode"
        )
    count = min(TEXTS, len(different))
    return [different[number * len(different) // count] for number in range(count)]
