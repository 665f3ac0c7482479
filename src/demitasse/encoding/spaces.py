"""Spaces: which vectors may be compared with one another, whatever cut each of them comes from.

A cut keeps the first layers of a model, the exits up to there and how texts are read, so a model and its cuts agree on
a fingerprint for each depth that both have. Two encoders share a space if they agree at the deepest of these: the
shallower one is then a cut of the other, or both are the same cut. Width is no part of it, since a cut keeps the first
dims, nor is the number of tokens that are read, nor the device. An export says in its manifest which model it was made
from, and shares that model's space in any precision.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from demitasse.encoding.fingerprints import fingerprint


@dataclass(frozen=True)
class Space:
    """The space of an encoder's vectors.

    >>> small, whole = encoder.cut(layers=1, dims=8).space, encoder.space
    >>> small.difference(whole) is None, len(whole.depths)
    (True, 4)
    """

    depths: tuple[str, ...]  # a fingerprint of the model cut at 0, 1, … layers
    tokenizer: str  # a fingerprint of how texts become tokens
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt: str | None = None

    @property
    def fingerprint(self) -> str:
        """Names the space, as far down as it is known."""
        return self.depths[-1]

    def difference(self, other: Space) -> str | None:
        """What makes vectors of the other space not comparable with those of this one; `None` if they are."""
        deepest = min(len(self.depths), len(other.depths)) - 1
        if self.depths[deepest] != other.depths[deepest]:
            return "its weights"
        if self.tokenizer != other.tokenizer:
            return "its tokenizer"
        if (dict(self.prompts), self.default_prompt) != (dict(other.prompts), other.default_prompt):
            return "its prompts"
        return None


def chained(base: str, depths: Iterable[str]) -> tuple[str, ...]:
    """A fingerprint for each depth, of all that is below it too; `base` is what every depth has.

    >>> chained("base", ["0", "1"])[0] == chained("base", ["0"])[-1]
    True
    """
    return tuple(accumulate(depths, lambda below, own: fingerprint([below, own]), initial=base))[1:]


def space_of(depths: tuple[str, ...], reading: Mapping[str, Any]) -> Space:
    """The space of a model that reads texts so, as `fingerprints.reading` says it."""
    facts = dict(reading)
    del facts["max_tokens"]
    prompts, default = facts.pop("prompts"), facts.pop("default_prompt")
    return Space(depths, fingerprint(facts), prompts, default)
