"""How well a model in training orders pairs that people have scored: Spearman's correlation, cut by cut. No torch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from demitasse.cut import Cut
from demitasse.data.pairs import Source
from demitasse.encoding.encoder import Encoder
from demitasse.evaluation.evaluate import measure
from demitasse.evaluation.tasks import PairTask


def dev_scores(encoder: Encoder, pairs: Source, cuts: Sequence[Cut], prompts: Sequence[str] = ()) -> dict[str, float]:
    """Spearman's correlation x 100 between cosines and scores at each of `cuts`, from one pass over the texts.

    `prompts` are the names of those of the first and the second text of a pair; one alone is for both.
    """
    rows = [pairs[index] for index in range(len(pairs))]
    left, right = zip(*(row.texts for row in rows), strict=True)
    gold = np.array([row.score for row in rows], dtype=float)
    first, second = (prompts[0], prompts[min(1, len(prompts) - 1)]) if prompts else (None, None)
    task = PairTask("dev", "dev", left, right, gold, binary=False, prompts=(first, second))
    scores = measure(encoder, task, [(cut, cut.layers) for cut in cuts])
    return {str(cut): round(scores[cut.dims, cut.layers, cut.layers].main, 3) for cut in cuts}
