"""Filters: what each matches, and one sentence for what is none."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from demitasse import DataError
from demitasse.search.filters import allowed, canonical, check_where, fields_of

ROWS: list[dict[str, Any]] = [
    {"lang": "en", "year": 2019, "tags": ["tea", "cup"]},
    {"lang": "de", "year": 2021.5},
    {"lang": "en", "year": "2021", "done": True},
    {"year": 1, "done": 1},
    {},
]


def column(name: str) -> tuple[np.ndarray, list[Any]]:
    values = [row[name] for row in ROWS if name in row]
    numbers = iter(range(len(values)))
    return np.array([next(numbers) if name in row else -1 for row in ROWS], np.int32), values


@pytest.mark.parametrize(
    ("where", "matching"),
    [
        ({"lang": "en"}, [0, 2]),
        ({"lang": ["de", "fr"]}, [1]),
        ({"lang": "en", "year": 2019}, [0]),
        ({"year": {"gte": 2019}}, [0, 1]),
        ({"year": {"gt": 2019, "lt": 3000}}, [1]),
        ({"year": {"lte": 1}}, [3]),
        ({"year": {"gte": "2"}}, [2]),  # as a string: numbers are neither before nor after it
        ({"done": True}, [2]),  # 1 is not True
        ({"done": 1}, [3]),
        ({"tags": "cup"}, [0]),
        ({"tags": ["mug", "tea"]}, [0]),
        ({"or": [{"lang": "de"}, {"year": 1}]}, [1, 3]),
        ({"and": [{"lang": "en"}, {"or": [{"done": True}, {"year": {"lt": 5}}]}]}, [2]),
        ({"colour": "red"}, []),
    ],
)
def test_what_matches(where: dict[str, Any], matching: list[int]) -> None:
    check_where(where)
    assert np.flatnonzero(allowed(where, column, len(ROWS))).tolist() == matching


def nested(levels: int) -> dict[str, Any]:
    where: dict[str, Any] = {"lang": "en"}
    for _ in range(levels - 1):
        where = {"and": [where]}
    return where


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ({}, "at least one field"),
        (["lang"], "must be a dict"),
        ({"lang": None}, "None for 'lang'"),
        ({"lang": {"like": "e"}}, "comparison 'like'"),
        ({"lang": {}}, "no comparison"),
        ({"year": {"gte": True}}, "compares 'year' with True"),
        ({"year": {"gte": [1]}}, "give a finite number or a string"),
        ({"or": {"lang": "en"}}, "needs a list of filters"),
        ({"or": []}, "needs a list of filters"),
        ({"or": [{"lang": object()}]}, "for 'lang'"),
        ({7: "en"}, "not a string"),
        ({"year": float("nan")}, "for 'year'"),
        ({"year": [[1]]}, "for 'year'"),
        ({"year": 10**5000}, "has a int for 'year'"),
        ({"year": {"lt": float("inf")}}, "compares 'year' with inf; give a finite number"),
        ({"lang": []}, "an empty list for 'lang'"),
        (nested(33), "nested more than 32 levels deep"),
        (nested(5000), "nested more than 32 levels deep"),
    ],
)
def test_what_is_no_filter_is_refused(where: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        check_where(where)


@pytest.mark.parametrize("kind", [UserDict, MappingProxyType])
def test_any_mapping_is_a_filter_that_differs_from_others(kind: Callable[[dict[str, Any]], Any]) -> None:
    """They are remembered by what they say: what one has found must never be another's."""
    said = [canonical(check_where(kind({"year": kind({"gte": year})}))) for year in (2020, 2021)]
    assert said == [canonical({"year": {"gte": year}}) for year in (2020, 2021)]
    assert check_where({"and": (kind({"lang": {"en"}}),)}) == {"and": [{"lang": ["en"]}]}
    assert canonical(check_where({"lang": {"en", 7}}))
    assert check_where(nested(32)) == nested(32)


def test_filters_that_say_the_same_are_remembered_as_one() -> None:
    assert canonical({"a": 1, "b": [1, 2]}) == canonical({"b": [1, 2], "a": 1})
    assert fields_of({"a": 1, "or": [{"b": 1}, {"and": [{"c": 2}]}]}) == {"a", "b", "c"}
