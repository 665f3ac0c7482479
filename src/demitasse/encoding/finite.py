"""The last look at vectors before anyone gets them: NaN is never passed on. Pure numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from demitasse.cut import Cut
from demitasse.encoding.vectors import Vectors
from demitasse.errors import FolderError


def finite(vectors: dict[Cut, Vectors], why: Callable[[], tuple[str, str]]) -> dict[Cut, Vectors]:
    """`vectors` as they are, if they are numbers; else `why` names the model, and the cause with what to do.

    >>> finite({Cut(1, 2): np.float32([[0, np.nan]])}, lambda: ("tiny in fp16", "which is too small; use fp32"))
    Traceback (most recent call last):
    demitasse.errors.FolderError: tiny in fp16 gives NaN instead of vectors at 1 layers, which is too small; use fp32
    """
    for cut, of_window in vectors.items():
        # A sum has NaN in it if one of the numbers is NaN or infinite, and takes half the time of asking each.
        if not np.isfinite(of_window.sum()):
            model, cause = why()
            raise FolderError(f"{model} gives NaN instead of vectors at {cut.layers} layers, {cause}")
    return vectors
