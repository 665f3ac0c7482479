"""How well an encoder orders pairs that people have scored: Spearman's correlation, cut by cut. No torch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from demitasse.cut import Cut
from demitasse.encoder import Encoder
from demitasse.pairs import Source

Values = npt.NDArray[np.floating]


def dev_scores(encoder: Encoder, pairs: Source, cuts: Sequence[Cut]) -> dict[str, float]:
    """Spearman's correlation x 100 between cosines and scores at each of `cuts`, from one pass over the texts."""
    rows = [pairs[index] for index in range(len(pairs))]
    gold = np.array([row.score for row in rows], dtype=float)
    vectors = encoder.encode_cuts([row.texts[side] for side in (0, 1) for row in rows], cuts, progress=False)
    scores = {}
    for cut in cuts:
        left, right = np.split(vectors[cut], 2)
        scores[str(cut)] = round(100 * spearman((left * right).sum(1), gold), 3)
    return scores


def spearman(ours: Values, theirs: Values) -> float:
    """The correlation of ranks; 0 where one side is the same throughout, which orders nothing.

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
