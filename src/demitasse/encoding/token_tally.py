"""What one pass over texts has read: how many tokens, and which texts were too long for the model."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from demitasse.arguments import choice, instance
from demitasse.encoding.packed_tokens import PackedTokens
from demitasse.errors import DataError

OnLong = Literal["cut", "warn", "error"]


@dataclass
class TokenTally:
    """Counts what `Encoder.encode_cuts` reads; with `on_long="error"`, refuses the first text that is too long.

    >>> tally = TokenTally()
    >>> vectors = encoder.encode_cuts(["a ristretto", "a lungo " * 40], [encoder.full], tally=tally)
    >>> tally
    TokenTally(on_long='cut', texts=2, tokens=36, truncated=1)
    """

    on_long: OnLong = "cut"
    texts: int = 0
    tokens: int = 0  # that the model was given, special tokens included
    truncated: int = 0  # texts

    def __post_init__(self) -> None:
        choice("on_long", self.on_long, get_args(OnLong))

    @classmethod
    def of(cls, given: TokenTally | None, on_long: OnLong = "cut") -> TokenTally:
        """The tally that was given; a new one if none was."""
        if given is None:
            return cls(on_long)
        return instance("tally", given, TokenTally, "write TokenTally()")

    def add(self, packed: PackedTokens, limit: int) -> None:
        """Count texts that were truncated at `limit` tokens."""
        long = np.flatnonzero(packed.truncated)
        if len(long) and self.on_long == "error":
            raise DataError(
                f"text {self.texts + long[0]} has {packed.whole_lengths[long[0]]} tokens and the model takes {limit}; "
                'shorten it, or pass on_long="cut" to have it truncated'
            )
        self.merge(TokenTally(self.on_long, len(packed), int(packed.lengths.sum()), len(long)))

    def merge(self, other: TokenTally) -> None:
        """Count what another one has counted."""
        self.texts += other.texts
        self.tokens += other.tokens
        self.truncated += other.truncated

    def warn(self, limit: int, stacklevel: int) -> None:
        """Say how many texts were truncated, if that was asked for."""
        if self.truncated and self.on_long == "warn":
            have = "has" if self.truncated == 1 else "have"
            warnings.warn(
                f"{self.truncated} of {self.texts} texts {have} more than {limit} tokens; what is beyond was left out",
                stacklevel=stacklevel,
            )
