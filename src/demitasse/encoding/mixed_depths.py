"""One batch of texts at different cuts: every layer runs once, over the texts that still need it. Pure numpy.

Texts are sorted by depth, deepest first, so that those which go on are always the front of the batch: a slice, not a
copy. A text is read out at its own depth and leaves; when the longest texts have left, so does the padding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from demitasse.cut import Cut
from demitasse.encoding.packed_tokens import PackedTokens
from demitasse.encoding.vectors import Vectors, unit_length

Axis = Literal["texts", "tokens"] | None  # what an axis of a tensor counts; `None` is a size of the model itself
Axes = tuple[Axis, ...]


@dataclass(frozen=True, eq=False)
class MixedTexts:
    """Texts to be embedded together, each at a cut of its own."""

    packed: PackedTokens
    cuts: Sequence[Cut]  # one per text
    prompt_tokens: npt.NDArray[np.int64]  # leading tokens of each text that pooling leaves out

    def __len__(self) -> int:
        return len(self.packed)

    def chosen(self, indices: npt.NDArray[np.int64]) -> MixedTexts:
        """Some of the texts."""
        cuts = [self.cuts[index] for index in indices]
        return MixedTexts(self.packed.chosen(indices), cuts, self.prompt_tokens[indices])

    @property
    def order(self) -> npt.NDArray[np.int64]:
        """The texts, deepest first."""
        depths = np.fromiter((cut.layers for cut in self.cuts), np.int64, len(self.cuts))
        return np.argsort(-depths, kind="stable")


@dataclass(frozen=True)
class Front:
    """The texts that reach a depth: the first `reaching` of a batch, of which `staying` go on to the next layer."""

    depth: int
    reaching: int
    staying: int
    tokens: int  # of the longest that stays


def fronts(depths: Sequence[int], lengths: npt.ArrayLike) -> list[Front]:
    """The front of a batch at each depth; `depths` never grow.

    >>> for front in fronts([2, 2, 1], [3, 5, 9]):
    ...     print(front)
    Front(depth=0, reaching=3, staying=3, tokens=9)
    Front(depth=1, reaching=3, staying=2, tokens=5)
    Front(depth=2, reaching=2, staying=0, tokens=0)
    """
    longest = np.maximum.accumulate(np.asarray(lengths)).tolist()
    reached = np.asarray(depths)
    drawn, reaching = [], len(depths)
    for depth in range(int(reached[0]) + 1):
        staying = int(np.count_nonzero(reached > depth))
        drawn.append(Front(depth, reaching, staying, longest[staying - 1] if staying else 0))
        reaching = staying
    return drawn


def axes_of(first: Sequence[int], second: Sequence[int], sizes: tuple[tuple[int, int], tuple[int, int]]) -> Axes | None:
    """What each axis of a tensor counts, from its shapes for two `sizes` (texts, tokens); `None` if that is not clear.

    >>> axes_of((2, 1, 7, 7), (3, 1, 11, 11), ((2, 7), (3, 11)))
    ('texts', None, 'tokens', 'tokens')
    >>> axes_of((2, 8), (3, 12), ((2, 7), (3, 11))) is None
    True
    """
    if len(first) != len(second):
        return None
    (texts, tokens), (other_texts, other_tokens) = sizes
    known: dict[tuple[int, int], Axis] = {(texts, other_texts): "texts", (tokens, other_tokens): "tokens"}
    axes: list[Axis] = []
    for pair in zip(first, second, strict=True):
        if pair not in known and pair[0] != pair[1]:
            return None
        axes.append(known.get(pair))
    return tuple(axes)


def front_slice(axes: Axes, texts: int, tokens: int) -> tuple[slice, ...]:
    """The index of the first `texts` and `tokens` of a tensor with these axes."""
    ends = {"texts": slice(texts), "tokens": slice(tokens), None: slice(None)}
    return tuple(ends[axis] for axis in axes)


def cut_rows(embeddings: Vectors, cuts: Sequence[Cut], out: Vectors, rows: npt.NDArray[np.int64]) -> None:
    """Write each of `embeddings`, cut to its dims and scaled to unit length, into its row of `out`."""
    widths = np.fromiter((cut.dims for cut in cuts), np.int64, len(cuts))
    for dims in np.unique(widths).tolist():
        chosen = np.flatnonzero(widths == dims)
        out[rows[chosen], :dims] = unit_length(embeddings[chosen, :dims])


def sliced(values: Mapping[str, Any], axes: Mapping[str, Axes], texts: int, tokens: int) -> dict[str, Any]:
    """The values with known axes, for the first `texts` and `tokens`."""
    return {name: values[name][front_slice(axes[name], texts, tokens)] for name in axes}
