"""`where`: which texts a search may find, by their metadata.

    {"lang": "en"}                          equal
    {"lang": ["en", "de"]}                  any of
    {"year": {"gte": 2020, "lt": 2024}}     a range: gt, gte, lt, lte
    {"lang": "en", "year": {"gte": 2020}}   both
    {"or": [{"lang": "en"}, {"year": 1901}]}, {"and": [ … ]}

A text without the field matches nothing. Of a field that is a list, one of its items must match. Values of different
kinds are never equal and have no order: "7" is not 7, and neither is before the other.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from demitasse.errors import DataError, shown

Where = Mapping[str, Any]
Allowed = npt.NDArray[np.bool_]
Column = tuple[npt.NDArray[np.int32], list[Any]]  # for each row the number of its value, and the values
DEEPEST = 32  # filters in one another: they are followed by functions that call themselves
_RANGES: dict[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}
_BOTH = {"and": np.logical_and, "or": np.logical_or}
_HOW = 'write {"lang": "en"}, {"lang": ["en", "de"]}, {"year": {"gte": 2020}}, or a list of those under "and" or "or"'


def check_where(where: object) -> Where:
    """What `where` says, in plain dicts and lists, if it says what it may say."""
    return _checked(where, DEEPEST)


def _checked(where: object, levels: int) -> dict[str, Any]:
    if not levels:
        raise DataError(f"where is nested more than {DEEPEST} levels deep; put its parts side by side")
    if not isinstance(where, Mapping) or not where:
        raise DataError(f"where must be a dict with at least one field, not {shown(where)}; {_HOW}")
    plain: dict[str, Any] = {}
    for name, wanted in where.items():
        if not isinstance(name, str):
            raise DataError(f"where has the field {shown(name)}, which is not a string; {_HOW}")
        if name in _BOTH:
            if not isinstance(wanted, Sequence) or isinstance(wanted, str) or not wanted:
                raise DataError(f"where has {name!r} with {shown(wanted)}, and it needs a list of filters; {_HOW}")
            plain[name] = [_checked(inner, levels - 1) for inner in wanted]
        elif isinstance(wanted, Mapping):
            _check_range(name, wanted)
            plain[name] = dict(wanted)
        else:
            several = isinstance(wanted, (list, tuple, set, frozenset))
            values = list(wanted) if several else [wanted]
            for value in values:
                _check_value(name, value)
            if not values:  # databases would take it for no condition at all
                raise DataError(f"where has an empty list for {name!r}; give at least one value")
            plain[name] = values if several else wanted
    return plain


def fields_of(where: Where) -> set[str]:
    """The fields that `where` asks for."""
    inner = [fields_of(part) for name in where if name in _BOTH for part in where[name]]
    return {name for name in where if name not in _BOTH}.union(*inner)


def allowed(where: Where, column: Callable[[str], Column], count: int) -> Allowed:
    """Which of `count` rows match, given the columns of the fields."""
    found = np.ones(count, bool)
    for name, wanted in where.items():
        if name in _BOTH:
            found &= _BOTH[name].reduce([allowed(part, column, count) for part in wanted])
        else:
            codes, values = column(name)
            matching = np.array([_matches(value, wanted) for value in values] + [False])  # the last: no such field
            found &= matching[codes]
    return found


def canonical(where: Where) -> str:
    """The same text for checked filters that say the same, to remember what they gave."""
    return json.dumps(where, sort_keys=True)


def _check_range(name: str, wanted: Mapping[str, Any]) -> None:
    unknown = [bound for bound in wanted if bound not in _RANGES]
    if unknown or not wanted:
        what = f"the comparison {shown(unknown[0])}" if unknown else "no comparison"
        raise DataError(f"where has {what} for {name!r}; use {', '.join(_RANGES)}, or a value for an equal one")
    for bound in wanted.values():
        if _kind(bound) not in ("number", "str"):
            raise DataError(f"where compares {name!r} with {shown(bound)}; give a finite number or a string")


def _check_value(name: str, value: object) -> None:
    if _kind(value) is None:
        raise DataError(
            f"where has {shown(value)} for {name!r}; give a string, a finite number, true or false, or a list of them"
        )


def _kind(value: object) -> str | None:
    """The kind of a value that can be compared; true and false are no numbers."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        try:
            return "number" if math.isfinite(value) else None
        except OverflowError:  # a whole number that is larger than any float
            return None
    return "str" if isinstance(value, str) else None


def _matches(value: Any, wanted: Any) -> bool:
    if isinstance(value, list):
        return any(_matches(item, wanted) for item in value if not isinstance(item, list))
    kind = _kind(value)
    if isinstance(wanted, Mapping):
        return all(_kind(bound) == kind and _RANGES[name](value, bound) for name, bound in wanted.items())
    several = wanted if isinstance(wanted, (list, tuple, set, frozenset)) else [wanted]
    return kind is not None and any(_kind(one) == kind and one == value for one in several)
