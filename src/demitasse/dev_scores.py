"""How well an encoder orders pairs that people have scored: Spearman's correlation, cut by cut. No torch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from demitasse.cut import Cut
from demitasse.encoder import Encoder
from demitasse.pairs import Source

Values = npt.NDArray[np.floating]


def dev_scores(encoder: Encoder, pairs: Source, cuts: Sequence[Cut], prompts: Sequence[str] = ()) -> dict[str, float]:
    """Spearman's correlation x 100 between cosines and scores at each of `cuts`, from one pass over the texts.

    `prompts` are the names of those of the first and the second text of a pair; one alone is for both.
    """
    rows = [pairs[index] for index in range(len(pairs))]
    gold = np.array([row.score for row in rows], dtype=float)
    names = [prompts[min(side, len(prompts) - 1)] if prompts else None for side in (0, 1)]
    left, right = (
        encoder.encode_cuts([row.texts[side] for row in rows], cuts, prompt=names[side], progress=False)
        for side in (0, 1)
    )
    return {str(cut): round(100 * spearman((left[cut] * right[cut]).sum(1), gold), 3) for cut in cuts}


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
