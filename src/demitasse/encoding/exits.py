"""Exits: the linear readout of a depth, and its closed form. Pure numpy.

An exit maps a state x to the embedding y = W (x / |x|) + b. Given many texts, with X their states at a depth (each of
unit length, with a 1 appended for b) and T their full-depth embeddings (each of unit length), the least-squares W is

    W = (X'X + lambda I)^-1 X'T

Only the two products are stored, so memory does not grow with the number of texts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from demitasse.encoding.vectors import Vectors, unit_length

_Double = npt.NDArray[np.float64]

# Relative to the mean square of a column of X, so that they mean the same for every number of texts.
LAMBDAS = (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)


@dataclass(frozen=True, eq=False)
class Exit:
    """The readout of one depth: y = weight (x / |x|) + bias."""

    weight: Vectors  # (dims, state dims)
    bias: Vectors  # (dims,)

    @property
    def dims(self) -> int:
        """How many dims come out."""
        return int(self.weight.shape[0])

    def __call__(self, states: Vectors) -> Vectors:
        """The embeddings (B, dims) of `states` (B, state dims), not yet of unit length."""
        return unit_length(states) @ self.weight.T + self.bias

    def first(self, dims: int) -> Exit:
        """The same exit, giving only its first `dims`."""
        return Exit(self.weight[:dims].copy(), self.bias[:dims].copy())

    def rotated(self, rotation: Vectors) -> Exit:
        """The same exit followed by `rotation` (dims, dims): its embeddings times that matrix."""
        return Exit(_single(rotation.T @ self.weight), _single(self.bias @ rotation))


class Moments:
    """X'X and X'T of all texts seen so far, in double precision."""

    def __init__(self, state_dims: int, dims: int) -> None:
        self.count = 0
        self._xx: _Double = np.zeros((state_dims + 1, state_dims + 1))
        self._xt: _Double = np.zeros((state_dims + 1, dims))

    def add(self, states: Vectors, targets: Vectors) -> None:
        """Add `states` (B, S) and the full-depth embeddings `targets` (B, D) of the same texts."""
        x = np.concatenate([unit_length(states), np.ones((len(states), 1), np.float32)], axis=1)
        # Products in fp32 and sums in fp64: fp32 is exact enough for one window, but not for all of them.
        self._xx += x.T @ x
        self._xt += x.T @ unit_length(targets)
        self.count += len(states)

    def solve(self, regularizer: float) -> Exit:
        """The closed form with lambda = `regularizer` times the mean square of a column."""
        columns = len(self._xx)
        ridge = regularizer * float(np.trace(self._xx)) / columns
        solution = np.linalg.solve(self._xx + ridge * np.eye(columns), self._xt)
        return Exit(_single(solution[:-1].T), _single(solution[-1]))


def choose_exit(moments: Moments, states: Vectors, targets: Vectors) -> tuple[Exit, float]:
    """The closed form with the lambda that brings held-out `states` closest to their `targets`, and that lambda."""
    return max(
        ((moments.solve(value), value) for value in LAMBDAS),
        key=lambda candidate: mean_cosine(candidate[0](states), targets),
    )


def mean_cosine(vectors: Vectors, others: Vectors) -> float:
    """The mean cosine between each vector and its counterpart.

    >>> mean_cosine(np.float32([[1, 0], [2, 2]]), np.float32([[3, 0], [1, 1]]))
    1.0
    """
    return round(float(np.mean(np.sum(unit_length(vectors) * unit_length(others), axis=1))), 6)


def similarity_agreement(vectors: Vectors, others: Vectors) -> float:
    """The correlation, over all pairs, of cosines between `vectors` with those between `others`; 0 if all are equal.

    >>> similarity_agreement(np.ones((3, 2), np.float32), np.eye(3, dtype=np.float32))
    0.0
    """
    pairs = np.triu_indices(len(vectors), 1)
    ours, theirs = ((unit_length(side) @ unit_length(side).T)[pairs] for side in (vectors, others))
    with np.errstate(invalid="ignore"):  # where the last token of every text is the same, there is nothing to correlate
        correlation = float(np.corrcoef(ours, theirs)[0, 1])
    return round(correlation, 6) if correlation == correlation else 0.0


def neighbour_agreement(vectors: Vectors, others: Vectors, nearest: int = 10) -> float:
    """The share of the `nearest` neighbours of each of `vectors` that are also those of its counterpart in `others`.

    This is what a search sees: which texts are found, not how high their cosines are.

    >>> groups = np.float32([[1, 0], [1, 0.1], [1, 0.2], [0, 1], [0.1, 1], [0.2, 1]])
    >>> neighbour_agreement(groups, groups[::-1], nearest=2)
    1.0
    >>> neighbour_agreement(groups, groups[[0, 3, 1, 4, 2, 5]], nearest=2)
    0.333333
    """
    count = min(nearest, len(vectors) - 2)  # fewer than there are, or all would agree
    if count < 1:
        return 0.0
    found = []
    for side in (vectors, others):
        cosines = unit_length(side) @ unit_length(side).T
        np.fill_diagonal(cosines, -2)  # none is its own neighbour
        among = np.zeros(cosines.shape, bool)
        np.put_along_axis(among, np.argpartition(-cosines, count - 1, axis=1)[:, :count], values=True, axis=1)
        found.append(among)
    return round(float(np.mean(np.sum(found[0] & found[1], axis=1) / count)), 6)


def narrow(exits: Iterable[tuple[int, Exit]], depth: int, dims: int) -> dict[int, Exit]:
    """The exits up to `depth`, each giving only its first `dims`."""
    return {at: exit_.first(dims) if dims < exit_.dims else exit_ for at, exit_ in exits if at <= depth}


def _single(values: npt.NDArray[np.floating]) -> Vectors:
    return np.ascontiguousarray(values, dtype=np.float32)


def depth_spans(depths: Iterable[int]) -> str:
    """Depths to read, runs of them joined.

    >>> depth_spans([0, 1, 2, 5])
    '0-2, 5'
    """
    spans: list[list[int]] = []
    for depth in sorted(depths):
        if spans and depth == spans[-1][1] + 1:
            spans[-1][1] = depth
        else:
            spans.append([depth, depth])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in spans)
