from __future__ import annotations

from collections.abc import Callable
from typing import Any

import datasets
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from demitasse import DataError
from demitasse.encoding.tables import columns_of, listed, text_column

COLUMNS: dict[str, list[Any]] = {"id": [7, 8, 9], "text": ["a cup", None, "caf\u00e9"]}
MANY = [f"text {number}" for number in range(5000)]
TABLES: dict[str, Callable[[dict[str, list[Any]]], object]] = {
    "dict": dict,
    "dict of arrays": lambda columns: {name: np.array(values, object) for name, values in columns.items()},
    "dict of series": lambda columns: {name: pd.Series(values) for name, values in columns.items()},
    "pandas": pd.DataFrame,
    "pandas objects": lambda columns: pd.DataFrame(columns, dtype=object),
    "pandas, other index": lambda columns: pd.DataFrame(columns, index=range(len(columns["id"]), 0, -1)),
    "polars": pl.DataFrame,
    "Arrow table": pa.table,
    "Arrow batch": pa.record_batch,
    "Arrow chunks": lambda columns: pa.concat_tables([pa.table(columns).slice(0, 1), pa.table(columns).slice(1)]),
    "Hugging Face": datasets.Dataset.from_dict,
}


@pytest.mark.parametrize("kind", TABLES)
def test_every_table_gives_the_same_columns(kind: str) -> None:
    columns = columns_of(TABLES[kind](COLUMNS))
    assert columns is not None
    assert {name: list(values) for name, values in columns.items()} == COLUMNS
    assert (columns["text"][-1], columns["text"][0], columns["id"][1:]) == ("caf\u00e9", "a cup", [8, 9])
    with pytest.raises(IndexError):
        columns["id"][3]


@pytest.mark.parametrize("kind", TABLES)
def test_a_long_column_is_whole_and_in_order(kind: str) -> None:
    columns = columns_of(TABLES[kind]({"id": list(range(len(MANY))), "text": MANY}))
    assert columns is not None
    assert list(columns["text"]) == MANY
    assert list(columns["id"]) == list(range(len(MANY)))


@pytest.mark.parametrize(
    "given",
    [
        ["a"],
        ("a",),
        "a",
        b"a",
        None,
        7,
        np.array(["a"]),
        pd.Series(["a"]),
        pl.Series(["a"]),
        pa.array(["a"]),
        iter("a"),
    ],
    ids=lambda given: type(given).__name__,
)
def test_lists_and_other_things_are_not_tables(given: object) -> None:
    assert columns_of(given) is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"a": [1, 2], "b": [1]}, r"the columns of the dict have different lengths \(a 2, b 1\)"),
        ({"anchor": "a cup"}, "'anchor' of the dict is a str, not a list"),
        ({"a": iter("x")}, "'a' of the dict is a .*iterator, not a list"),
        ({"a": np.array(3)}, "'a' of the dict is a ndarray, not a list"),
        ({1: [1], "1": [1]}, r"two columns of one name \(1, 1\)"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), r"the DataFrame has two columns of one name \(a, a\)"),
        (pl.LazyFrame({"a": [1]}), r"a LazyFrame has not been computed yet; give what its collect\(\) returns"),
        (datasets.DatasetDict(train=datasets.Dataset.from_dict(COLUMNS)), r"several splits was given \(train\)"),
    ],
)
def test_a_table_that_cannot_be_used_is_one_sentence(given: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        columns_of(given)


def test_a_list_of_columns_is_short_and_on_one_line() -> None:
    said = listed(["two\nlines", "x" * 1000, *range(100)])
    assert said.startswith(f"two lines, {'x' * 40}, 0, 1")
    assert said.endswith("17, … and 82 more")


def test_a_table_without_columns_is_a_table() -> None:
    assert columns_of({}) == columns_of(pd.DataFrame()) == columns_of(pl.DataFrame()) == {}


def test_the_texts_are_in_the_column_text_or_the_only_one_with_strings() -> None:
    assert text_column({"id": [1], "title": ["x"], "text": [None]}) == "text"
    assert text_column({"id": [1], "title": [None, "x"]}) == "title"
    assert text_column({"title": ["x"], "body": ["y"]}, "body") == "body"


@pytest.mark.parametrize(
    ("columns", "wanted", "message"),
    [
        (
            {"title": ["x"], "body": ["y"]},
            None,
            r"2 columns hold strings \(columns: title, body\); name one with",
        ),
        ({"id": [1], "score": [None]}, None, r"no column holds strings \(columns: id, score\); name one with --column"),
        ({}, None, r"\(columns: none\)"),
        ({"title": ["x"]}, "body", "there is no column 'body'; the columns are title"),
    ],
)
def test_a_choice_that_is_not_clear_is_refused(columns: Any, wanted: str | None, message: str) -> None:
    with pytest.raises(DataError, match=message):
        text_column(columns, wanted, option="--column")
    with pytest.raises(DataError, match=r"there is no column .*(the columns are title|call the one to use 'text')"):
        text_column(columns, wanted)
