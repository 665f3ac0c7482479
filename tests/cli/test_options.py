from __future__ import annotations

import pytest

from demitasse import DataError
from demitasse.cli.options import parse_min_quality, parse_numbers, parse_share


def test_options_that_were_not_given_stay_unset() -> None:
    assert parse_numbers(None, "--layers") is None
    assert parse_min_quality(None) is None
    assert parse_share(None, "--max-drop") is None


@pytest.mark.parametrize(
    ("text", "expected"), [("7", [7]), ("3, 1-2,2", [1, 2, 3]), (" 0 - 2 ", [0, 1, 2]), ("5-5", [5])]
)
def test_numbers_and_ranges_are_sorted_without_duplicates(text: str, expected: list[int]) -> None:
    assert parse_numbers(text, "--layers") == expected


@pytest.mark.parametrize("text", ["", "one", "1,x", "3-1", "-8", "1.5", "1-2-3", "123456", "٣"])
def test_bad_numbers_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(DataError, match=f"--dims {text!r} .*such as 1,3,6"):
        parse_numbers(text, "--dims")


@pytest.mark.parametrize(("text", "expected"), [("97%", 0.97), (" 97.5 % ", 0.975), ("0.5", 0.5), ("1", 1), ("75", 75)])
def test_a_minimum_quality_is_a_share_or_points(text: str, expected: float) -> None:
    assert parse_min_quality(text) == pytest.approx(expected)


@pytest.mark.parametrize("text", ["", "high", "-1", "97%%", "1e3", "nan", "101%", "٩٧%"])
def test_a_bad_minimum_quality_is_refused(text: str) -> None:
    with pytest.raises(DataError, match=f"--min-quality {text!r} .*; write "):
        parse_min_quality(text)


@pytest.mark.parametrize(("text", "expected"), [("1%", 0.01), ("150%", 1.5), ("0.2", 0.2), ("0", 0.0)])
def test_a_share_is_a_percentage_or_below_one(text: str, expected: float) -> None:
    assert parse_share(text, "--max-drop") == pytest.approx(expected)


@pytest.mark.parametrize("text", ["1", "all", "-1%"])
def test_a_bad_or_ambiguous_share_is_refused(text: str) -> None:
    with pytest.raises(DataError, match=f"--max-drop {text!r} .*; write 1%"):
        parse_share(text, "--max-drop")
