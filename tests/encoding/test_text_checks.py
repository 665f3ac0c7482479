from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demitasse import DataError
from demitasse.encoding.text_checks import checked, text_series


@given(st.text(alphabet=st.characters()))
def test_any_text_becomes_valid_utf8(text: str) -> None:
    (clean,) = checked([text])
    clean.encode("utf-8")
    if not any(0xD800 <= ord(letter) < 0xE000 for letter in text):
        assert clean == text


def test_two_halves_of_a_pair_become_one_character() -> None:
    assert list(checked(["\ud83d\ude00", "a\ude00b"])) == ["😀", "a�b"]


@pytest.mark.parametrize("texts", ["one string", b"bytes"])
def test_one_string_is_refused_with_the_cure(texts: object) -> None:
    with pytest.raises(DataError, match=r"wrap it: \[text\]"):
        checked(texts)  # type: ignore[arg-type]


@pytest.mark.parametrize("texts", [None, 3])
def test_anything_but_a_list_is_refused(texts: object) -> None:
    with pytest.raises(DataError, match="must be a list of strings"):
        checked(texts)  # type: ignore[arg-type]


@pytest.mark.parametrize(("bad", "named"), [(None, "None"), (3.5, "float"), (b"x", "bytes"), (["a"], "list")])
def test_a_bad_text_is_named_by_its_position(bad: object, named: str) -> None:
    with pytest.raises(DataError, match=f"text 2 is .*{named}"):
        list(checked(["a", "b", bad]))  # type: ignore[list-item]


TEXTS = ["a ristretto", "a lungo", "café"]
SERIES = {
    "tuple": tuple(TEXTS),
    "generator": (text for text in TEXTS),
    "numpy": np.array(TEXTS),
    "numpy objects": np.array(TEXTS, object),
    "pandas": pd.Series(TEXTS, index=[7, 7, 1]),
    "pandas index": pd.Index(TEXTS),
    "polars": pl.Series(TEXTS),
    "arrow": pa.array(TEXTS),
    "arrow chunks": pa.chunked_array([TEXTS[:2], TEXTS[2:]]),
    "arrow dictionary": pa.array(TEXTS).dictionary_encode(),
}
TABLES = {
    "dict": {"text": TEXTS, "id": [1, 2, 3]},
    "dict of one": {"title": TEXTS},
    "pandas": pd.DataFrame({"title": ["x"] * 3, "text": TEXTS}, index=[4, 4, 2]),
    "polars": pl.DataFrame({"id": [1, 2, 3], "sentence": TEXTS}),
    "arrow": pa.table({"id": [1, 2, 3], "text": TEXTS}),
    "record batch": pa.record_batch({"text": TEXTS}),
}


@pytest.mark.parametrize(
    "given", [*SERIES.values(), *TABLES.values()], ids=[*SERIES, *(f"{key} table" for key in TABLES)]
)
def test_texts_are_read_from_what_users_hold(given: Any) -> None:
    assert list(checked(text_series(given))) == TEXTS


@pytest.mark.parametrize(
    "missing",
    [
        pd.Series(["a", "b", None]),
        pd.Series(["a", "b", np.nan], dtype=object),
        pd.Series(["a", "b", pd.NA], dtype="string"),
        pl.Series(["a", "b", None]),
        pa.array(["a", "b", None]),
        {"text": ["a", "b", None]},
    ],
    ids=["None", "nan", "NA", "polars", "arrow", "dict"],
)
def test_missing_values_are_named(missing: Any) -> None:
    with pytest.raises(DataError, match="text 2 is None; every text must be a string"):
        list(checked(text_series(missing)))


@pytest.mark.parametrize(
    ("table", "named"),
    [
        (pd.DataFrame({"title": TEXTS, "body": TEXTS}), 'columns: title, body.; name one with texts=table\\["…"\\]'),
        ({"id": [1, 2]}, "no column holds strings"),
        ({"d1": "a text", "d2": "another"}, "'d1' of the dict is a str"),
        (pl.LazyFrame({"text": TEXTS}), "collect"),
    ],
    ids=["two columns", "numbers", "texts by id", "lazy"],
)
def test_a_table_that_could_mean_anything_is_refused(table: Any, named: str) -> None:
    with pytest.raises(DataError, match=named):
        list(checked(text_series(table)))


@pytest.mark.parametrize("texts", [np.array("one"), np.str_("one"), pa.scalar("one")], ids=["0-d", "numpy", "arrow"])
def test_one_text_of_another_library_is_refused(texts: Any) -> None:
    with pytest.raises(DataError, match="texts must be a list of strings"):
        list(checked(text_series(texts)))
