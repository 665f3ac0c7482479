"""`MeasureOptions`: what `demitasse.measure` measures, and how long. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from demitasse.cut import Cut, grid, usual_dims
from demitasse.encoding.vectors import STORED
from demitasse.errors import CutError, DataError
from demitasse.planning.profile import PRECISIONS


@dataclass(frozen=True, kw_only=True)
class MeasureOptions:
    """What is measured and for how long; everything has a default.

    - `cuts`: by default every number of layers at the usual dims. The full size is always among them, since the others
      are a share of it.
    - `precisions`: "fp32", "int8" and so on; by default all that can be had of the model.
    - `vectors`: the ways of keeping them; "float32" is always among them.
    - `batch`: texts of a batch, for texts a second.
    - `rounds` of timing, at most; more of them make the times steadier and take longer.
    - `seconds` for all timing. Where that is short, there are fewer rounds, but never fewer than 5.
    - `progress`: whether to show a bar; by default to a person, when it takes a while.

    >>> MeasureOptions(rounds=5, seconds=5).batch
    32
    """

    cuts: Sequence[Cut] | None = None
    precisions: Sequence[str] | None = None
    vectors: Sequence[str] = STORED
    batch: int = 32
    rounds: int = 12
    seconds: float = 60.0
    progress: bool | None = None

    def __post_init__(self) -> None:
        for name, allowed in (("precisions", PRECISIONS), ("vectors", STORED)):
            given = getattr(self, name)
            if isinstance(given, str) or any(one not in allowed for one in given or ()):
                raise DataError(f"{name} is {given!r}; give a list of some of {', '.join(allowed)}")
            if given is not None and not given:
                raise DataError(f"{name} is empty; name at least one of {', '.join(allowed)}, or leave it out")
        for name, least in (("batch", 1), ("rounds", 2)):
            number = getattr(self, name)
            if isinstance(number, bool) or not isinstance(number, int) or number < least:
                raise DataError(f"{name} is {number!r}; give a whole number of at least {least}")
        if isinstance(self.seconds, bool) or not isinstance(self.seconds, (int, float)) or not self.seconds > 0:
            raise DataError(f"seconds is {self.seconds!r}; give a number above 0, such as 60")

    def cuts_of(self, full: Cut) -> list[Cut]:
        """The cuts to measure of an encoder of size `full`, smallest first.

        >>> [str(cut) for cut in MeasureOptions(cuts=[Cut(1, 8)]).cuts_of(Cut(3, 32))]
        ['1x8', '3x32']
        """
        if self.cuts is None:
            return grid(range(full.layers + 1), usual_dims(full.dims))
        if not self.cuts or not all(isinstance(cut, Cut) for cut in self.cuts):
            raise CutError(f"cuts is {self.cuts!r}; give at least one, such as [Cut(3, 128)]")
        return sorted({cut.within(full) for cut in self.cuts} | {full})

    @property
    def kinds(self) -> list[str]:
        """The ways of keeping vectors that are measured, finest first."""
        return [kind for kind in STORED if kind == "float32" or kind in self.vectors]
