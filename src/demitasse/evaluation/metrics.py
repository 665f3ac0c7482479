"""Ranking metrics as plain functions of numpy arrays: Spearman, average precision, and those of search.

Every value is between 0 and 1 (Spearman: -1 and 1). No torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.floating]
Indices = npt.NDArray[np.intp]
_DISPLAY_NAMES = {"spearman": "Spearman", "ndcg@10": "nDCG@10"}


def display_name(metric: str) -> str:
    """A metric's name as people write it.

    >>> display_name("ndcg@10"), display_name("average precision")
    ('nDCG@10', 'average precision')
    """
    return _DISPLAY_NAMES.get(metric, metric)


def spearman(ours: Values, theirs: Values) -> float:
    """The correlation of ranks; 0 if one side is constant.

    >>> spearman(np.array([0.1, 0.2, 0.9]), np.array([1, 2, 3]))
    1.0
    """
    if not (np.ptp(ours) and np.ptp(theirs)):
        return 0.0
    return round(float(np.corrcoef(ranks(ours), ranks(theirs))[0, 1]), 12)


def ranks(values: Values) -> Values:
    """Ranks from 0, ties sharing their mean.

    >>> ranks(np.array([5, 7, 5])).tolist()
    [0.5, 2.0, 0.5]
    """
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    shared: Values = (np.cumsum(counts) - (counts + 1) / 2)[inverse]
    return shared


def average_precision(scores: Values, labels: Values) -> float:
    """The mean precision at the pairs labelled 1, from the highest score down; tied scores count as one step.

    This is what scikit-learn computes; 0 if no pair is labelled 1.

    >>> average_precision(np.array([0.9, 0.8, 0.7]), np.array([1, 0, 1]))
    0.8333333333333333
    """
    order, starts = steps_down(scores)
    matches = np.add.reduceat(labels[order], starts)
    matches_so_far, seen = np.cumsum(matches), np.append(starts[1:], len(order))
    return float((matches * matches_so_far / seen).sum() / max(matches_so_far[-1], 1))


def steps_down(values: Values) -> tuple[Indices, Indices]:
    """The order of `values` from the highest down, and where in it each run of equal ones starts.

    >>> order, starts = steps_down(np.array([0.2, 0.9, 0.2]))
    >>> order.tolist(), starts.tolist()
    ([1, 0, 2], [0, 1])
    """
    order = np.argsort(-values, kind="stable")
    return order, np.flatnonzero(np.append(1, np.diff(values[order])))


def ndcg(ranked: Sequence[float], grades: Iterable[float], k: int) -> float:
    """The discounted gain of the first `k` of a ranking, as a share of the best possible.

    `ranked` are the grades of the ranked documents, in order, and `grades` those of all judged documents. The gain is
    the grade itself and the discount log2(1 + rank), as in trec_eval and BEIR.

    >>> ndcg([0, 1], [1], 10)
    0.6309297535714575
    """
    best = _discounted(sorted(grades, reverse=True)[:k])
    return _discounted(ranked[:k]) / best if best else 0.0


def recall(ranked: Sequence[float], judged: int, k: int) -> float:
    """The share of the `judged` documents (those with a grade above 0) that are among the first `k`.

    >>> recall([0, 1, 0], 2, 10)
    0.5
    """
    return sum(grade > 0 for grade in ranked[:k]) / judged


def all_found(ranked: Sequence[float], judged: int, k: int) -> float:
    """1 if all of the `judged` documents are among the first `k`, else 0: what a multi-hop question needs.

    >>> all_found([0, 1, 1], 2, 3)
    1.0
    """
    return float(recall(ranked, judged, k) == 1)


def reciprocal_rank(ranked: Sequence[float], k: int) -> float:
    """1 / the rank of the first document with a grade above 0; 0 if none is among the first `k`.

    >>> reciprocal_rank([0, 1], 10)
    0.5
    """
    return next((1 / rank for rank, grade in enumerate(ranked[:k], 1) if grade > 0), 0.0)


def _discounted(grades: Sequence[float]) -> float:
    return float(np.sum(np.asarray(grades, float) / np.log2(np.arange(len(grades)) + 2)))
