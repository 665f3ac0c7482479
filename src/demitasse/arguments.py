"""What callers give, as the type that is wanted: plain spellings of it are accepted, anything else is one sentence.

`check_fields` does this for all fields of a frozen dataclass, by their annotations; the other functions do it for one
argument. Whole numbers and flags of numpy count as Python's.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import fields
from numbers import Real
from pathlib import Path
from typing import Any, TypeVar

from demitasse.cut import Cut
from demitasse.errors import DataError, shown

_Wanted = TypeVar("_Wanted")
_MOST_BITS = 128  # of a whole number: Python neither prints those of thousands of digits nor makes floats of them


def whole(name: str, value: object, least: int | None = None) -> int:
    """`value` as a whole number of at least `least`."""
    if not _is_flag(value):
        with suppress(TypeError):
            number = operator.index(value)  # type: ignore[arg-type]
            if (least is None or number >= least) and number.bit_length() <= _MOST_BITS:
                return number
    at_least = "" if least is None else f" of at least {least}"
    raise DataError(f"{name} must be a whole number{at_least}, not {shown(value)}")


def number(name: str, value: object, above: float | None = None) -> float:
    """`value` as a finite number, larger than `above`."""
    larger = "" if above is None else f" above {above:g}"
    if not isinstance(value, Real) or _is_flag(value):
        raise DataError(f"{name} must be a number{larger}, not {shown(value)}")
    try:
        given = float(value)
    except OverflowError:
        given = math.inf
    if not math.isfinite(given):
        raise DataError(f"{name} must be a finite number, not {shown(value)}")
    if above is not None and given <= above:
        raise DataError(f"{name} must be a number{larger}, not {shown(value)}")
    return value if isinstance(value, int) else given


def flag(name: str, value: object) -> bool:
    """`value` as True or False."""
    if _is_flag(value):
        return bool(value)
    raise DataError(f"{name} must be True or False, not {shown(value)}")


def text(name: str, value: object) -> str:
    """`value`, which must be a string."""
    if isinstance(value, str):
        return value
    raise DataError(f"{name} must be a string, not {shown(value)}")


def path(name: str, value: object) -> Path:
    """`value` as a path."""
    if isinstance(value, (str, os.PathLike)) and str(value):
        with suppress(TypeError, UnicodeEncodeError):  # a PathLike of bytes; a name that no file can have
            if b"\0" not in os.fsencode(value):
                return Path(value)
    raise DataError(f"{name} must be a path, not {shown(value)}")


def several(name: str, value: object, each: Callable[[str, object], _Wanted]) -> tuple[_Wanted, ...]:
    """`value` as a tuple of what `each` gives for one; a single one may be given without a list.

    >>> several("dims", [64, 128], whole), several("dims", 64, whole)
    ((64, 128), (64,))
    """
    if isinstance(value, dict):
        raise DataError(f"{name} must be a list, not {shown(value)}")
    if isinstance(value, (str, bytes, Cut)) or not isinstance(value, Iterable):
        return (each(name, value),)
    return tuple(each(name, one) for one in value)


def instance(name: str, value: object, wanted: type[_Wanted], how: str) -> _Wanted:
    """`value`, which must be a `wanted`; `how` says where such a thing comes from."""
    if isinstance(value, wanted):
        return value
    raise DataError(f"{name} must be {_article(wanted.__name__)} {wanted.__name__}, not {shown(value)}; {how}")


def choice(name: str, value: object, allowed: Sequence[str]) -> str:
    """`value`, which must be one of the strings `allowed`."""
    if isinstance(value, str) and value in allowed:
        return value
    raise DataError(f"{name} must be one of {', '.join(allowed)}, not {shown(value)}")


def check_fields(given: Any) -> None:
    """Give every field of a frozen dataclass the type of its annotation; a type that is not known here stays as it is.

    Lists become tuples, `"3x64"` a `Cut`, numbers of numpy become Python's.
    """
    for field in fields(given):
        value, kind = getattr(given, field.name), str(field.type)
        kind, optional, _ = kind.partition(" | None")
        if not (optional and value is None):
            object.__setattr__(given, field.name, _as(field.name, value, kind))


def _as(name: str, value: object, kind: str) -> Any:
    item = kind.removeprefix("tuple[").removesuffix(", ...]")
    if item not in _KINDS:
        return value
    return _KINDS[item](name, value) if item == kind else several(name, value, _KINDS[item])


def _is_flag(value: object) -> bool:
    # numpy's has its own type, which cannot be named here without importing numpy.
    return isinstance(value, bool) or (type(value).__module__, type(value).__name__) in (
        ("numpy", "bool"),
        ("numpy", "bool_"),
    )


def _article(word: str) -> str:
    return "an" if word[0] in "AEIOU" else "a"


_KINDS: dict[str, Callable[[str, object], Any]] = {
    "int": whole,
    "float": number,
    "bool": flag,
    "str": text,
    "Cut": lambda name, value: Cut.of(value),
}
