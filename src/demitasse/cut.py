"""`Cut`: how many layers of an encoder to run and how many dims to keep, written `6x128` everywhere."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from demitasse.errors import CutError, shown

_MOST_BITS = 128  # of a number; Python does not print those of thousands of digits
_WRITTEN = re.compile(r"\s*(\d{1,9})\s*[xX×]\s*(\d{1,9})\s*", re.ASCII)


@dataclass(frozen=True, order=True)
class Cut:
    """The first `layers` transformer layers and the first `dims` dimensions of an encoder.

    Layers are counted from 1; the embedding table is not a layer, so `0xD` runs no transformer layer at all and
    pools the token embeddings. Cuts compare by layers, then by dims.

    >>> Cut(6, 128)
    Cut(layers=6, dims=128)
    >>> str(Cut.parse("6x128"))
    '6x128'
    >>> layers, dims = Cut(3, 64)
    >>> Cut(3, 64) < Cut(3, 128) < Cut(4, 1)
    True
    """

    layers: int
    dims: int

    def __post_init__(self) -> None:
        for name, least in (("layers", 0), ("dims", 1)):
            value = getattr(self, name)
            # Frozen, but a whole number of numpy becomes Python's here.
            if type(value) is not int or value.bit_length() > _MOST_BITS:
                value = _whole_number(name, value)
                object.__setattr__(self, name, value)
            if value < least:
                raise CutError(f"{name} must be at least {least}, not {value}")

    @classmethod
    def parse(cls, text: str) -> Cut:
        """The cut that `text` says, such as `6x128`."""
        match = _WRITTEN.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise CutError(f"cannot read {shown(text)} as a cut; write layers x dims, such as '6x128'")
        return cls(int(match[1]), int(match[2]))

    @classmethod
    def of(cls, given: object) -> Cut:
        """`given` as a cut: one as it is, the text of one, or a pair of numbers.

        >>> Cut.of("6x128") == Cut.of((6, 128)) == Cut(6, 128)
        True
        """
        if isinstance(given, Cut):
            return given
        if isinstance(given, (tuple, list)) and len(given) == 2:
            return cls(*given)
        return cls.parse(given)  # type: ignore[arg-type]  # it refuses whatever is not a string

    def fits(self, full: Cut) -> bool:
        """Whether an encoder of size `full` can give this cut: it is neither deeper nor wider.

        >>> Cut(3, 64).fits(Cut(6, 64)), Cut(3, 128).fits(Cut(6, 64))
        (True, False)
        """
        full = Cut.of(full)
        return self.layers <= full.layers and self.dims <= full.dims

    def within(self, full: Cut) -> Cut:
        """The cut itself, if it fits `full`; otherwise a `CutError` that says how much `full` has."""
        full = Cut.of(full)
        if self.fits(full):
            return self
        if self.layers > full.layers:
            raise CutError(f"cut {self} is deeper than this encoder ({full}); ask for at most {full.layers} layers")
        raise CutError(f"cut {self} is wider than this encoder ({full}); ask for at most {full.dims} dims")

    def __iter__(self) -> Iterator[int]:
        yield self.layers
        yield self.dims

    def __str__(self) -> str:
        return f"{self.layers}x{self.dims}"


def _whole_number(name: str, value: object) -> int:
    # bool is an int in Python, but Cut(True, 5) is a mistake.
    if not isinstance(value, bool):
        with suppress(TypeError):
            number = operator.index(value)  # type: ignore[arg-type]
            if number.bit_length() <= _MOST_BITS:
                return number
    raise CutError(f"{name} must be a whole number, not {shown(value)}; write Cut(6, 128)")


def grid(layers: Iterable[int], dims: Iterable[int]) -> list[Cut]:
    """Every combination of `layers` and `dims`, each once, in order.

    >>> [str(cut) for cut in grid([6, 3], [64, 128])]
    ['3x64', '3x128', '6x64', '6x128']
    """
    depths, widths = (list(given) if isinstance(given, Iterable) else [given] for given in (layers, dims))
    return sorted({Cut(depth, width) for depth in depths for width in widths})


def cuts_of(given: object) -> list[Cut]:
    """Several cuts: cuts, their texts or pairs of numbers, at least one; a single one needs no list.

    >>> [str(cut) for cut in cuts_of(["3x64", Cut(6, 128)])], cuts_of("3x64")
    (['3x64', '6x128'], [Cut(layers=3, dims=64)])
    """
    if isinstance(given, (str, Cut)):
        return [Cut.of(given)]
    if not isinstance(given, Iterable) or isinstance(given, (bytes, dict)):
        raise CutError(f"cuts must be a list such as ['6x128'], not a {type(given).__name__}")
    cuts = [Cut.of(one) for one in given]
    if not cuts:
        raise CutError("no cuts were given; name at least one, such as [Cut(6, 128)]")
    return cuts


def usual_dims(dims: int) -> list[int]:
    """The numbers of dims worth offering: powers of two from 32, and all of them.

    >>> usual_dims(384)
    [32, 64, 128, 256, 384]
    """
    return [*(width for width in (2**power for power in range(5, 20)) if width < dims), dims]
