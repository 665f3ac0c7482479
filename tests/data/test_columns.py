from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from row_files import json_lines, texts_of, write

from demitasse.data.columns import text_key
from demitasse.data.pairs import Example, read_pairs
from demitasse.errors import DataError

SHAPES: list[tuple[dict[str, Any], str, tuple[str, ...], float | None]] = [
    ({"anchor": "x", "positive": "y"}, "pairs", ("x", "y"), None),
    ({"anchor": "x", "positive": "y", "negative": None, "id": 3}, "pairs", ("x", "y"), None),
    ({"anchor": "x", "positive": "y", "negative": "z"}, "triples", ("x", "y", "z"), None),
    ({"anchor": "x", "positive": "y", "negatives": ["z", "w"]}, "triples", ("x", "y", "z", "w"), None),
    ({"anchor": "x", "positive": "y", "negative_1": "z", "negative_2": "w"}, "triples", ("x", "y", "z", "w"), None),
    ({"query": "x", "positive": "y", "negative": "z", "label": 3.5}, "triples", ("x", "y", "z"), None),
    ({"text": "x", "positive": "y", "negative": "z"}, "triples", ("x", "y", "z"), None),
    ({"sent0": "x", "sent1": "y", "hard_neg": "z"}, "triples", ("x", "y", "z"), None),
    ({"premise": "x", "hypothesis": "y"}, "pairs", ("x", "y"), None),
    ({"texts": ["x", "y", "X ", "z"]}, "groups", ("x", "y", "z"), None),
    ({"set": ["x", "y"]}, "groups", ("x", "y"), None),
    ({"a": "x", "b": "y", "score": 4}, "scored", ("x", "y"), 4.0),
    ({"anchor": "x", "positive": "y", "score": "0.25"}, "scored", ("x", "y"), 0.25),
    ({"sentence1": "x", "sentence2": "y", "label": 1}, "scored", ("x", "y"), 1.0),
    ({"text1": "x", "text2": "y", "label": 0, "score": 0.5}, "scored", ("x", "y"), 0.5),
]


@pytest.mark.parametrize(("row", "kind", "texts", "score"), SHAPES)
def test_the_columns_say_what_a_row_is(
    row: dict[str, Any], kind: str, texts: tuple[str, ...], score: float | None
) -> None:
    source = read_pairs([row]).sources[0]
    assert (source.kind, source[0]) == (kind, Example(texts, score))


@pytest.mark.parametrize(
    ("row", "kind", "expected"),
    [
        (("x", "y"), "pairs", Example(("x", "y"))),
        (("x", "y", "z", "w"), "triples", Example(("x", "y", "z", "w"))),
        (["x", "y", 1], "scored", Example(("x", "y"), 1.0)),
    ],
)
def test_rows_without_column_names_are_understood(row: Any, kind: str, expected: Example, tmp_path: Path) -> None:
    for given_rows in ([row], json_lines(tmp_path / "r.jsonl", row)):
        source = read_pairs(given_rows).sources[0]
        assert (source.kind, source[0]) == (kind, expected)


GOOD = {"anchor": "x", "positive": "y"}
TRIPLE = {**GOOD, "negatives": ["z"]}
GROUP = {"texts": ["x", "y"]}
SCORED = {**GOOD, "score": 1}
NUMBER = "not a finite number"


@pytest.mark.parametrize(
    ("first", "bad", "message"),
    [
        (GOOD, {"anchor": "x"}, "'positive' is missing"),
        (GOOD, {"anchor": None, "positive": "y"}, "'anchor' is missing"),
        (GOOD, {"query": "x"}, "'positive' is missing"),
        (GOOD, ["x"], "'positive' is missing"),
        (GOOD, {"anchor": "x", "positive": ""}, "'positive' is empty"),
        (GOOD, {"anchor": " \n", "positive": "y"}, "'anchor' is empty"),
        (GOOD, {"anchor": 3, "positive": "y"}, "'anchor' holds a value of type int"),
        (GOOD, 7, "it is of type int"),
        (GOOD, {"x": "1", "y": "2"}, "its columns are x, y; name them anchor and positive"),
        (GOOD, {}, "its columns are all empty"),
        (GOOD, TRIPLE, "it is of kind triples (negatives: 1) but the first row is of kind pairs"),
        (GROUP, SCORED, "it is of kind scored but the first row is of kind groups"),
        (
            TRIPLE,
            {**GOOD, "negatives": ["z", "w"]},
            "it is of kind triples (negatives: 2) but the first row is of kind triples (negatives: 1)",
        ),
        (TRIPLE, {**GOOD, "negative": 1}, "'negative' holds a value of type int"),
        (GROUP, {"texts": ["x", "X "]}, "'texts' has fewer than 2 different texts"),
        (GROUP, {"texts": "x"}, "'texts' holds a value of type str"),
        (GROUP, {"texts": ["x", None]}, "'texts' holds a value of type NoneType"),
        (SCORED, {**GOOD, "score": "high"}, f"'score' is 'high', {NUMBER}"),
        (SCORED, {**GOOD, "score": float("nan")}, f"'score' is nan, {NUMBER}"),
        (SCORED, {**GOOD, "score": True}, f"'score' is True, {NUMBER}"),
        (SCORED, {**GOOD, "score": [1]}, f"'score' is [1], {NUMBER}"),
        (SCORED, {**GOOD, "score": 10**400}, f"'score' is 1{'0' * 39}, {NUMBER}"),
        (
            GOOD,
            {"premise": "x", "hypothesis": "y", "label": 0},
            "'label' beside 'premise' and 'hypothesis' is a class",
        ),
    ],
)
def test_a_bad_row_is_named_or_skipped(first: object, bad: object, message: str, tmp_path: Path) -> None:
    path = json_lines(tmp_path / "pairs.jsonl", first, bad, first)
    with pytest.raises(DataError) as caught:
        read_pairs(path)
    assert str(caught.value).startswith(f"pairs.jsonl line 2: {message}")
    assert "; " in str(caught.value)  # the cure
    source = read_pairs(path, skip_bad_rows=True).sources[0]
    assert (len(source), source.skipped, source.weight) == (2, 1, 2.0)


def test_half_a_surrogate_pair_is_replaced(tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", '["broken \\ud83d", "whole \\ud83d\\ude00"]\n')
    assert texts_of(read_pairs(path)) == [("broken \ufffd", "whole \U0001f600")]


@given(st.text())
def test_the_key_of_a_text_ignores_white_space_around_it(text: str) -> None:
    assert text_key(f"\t{text}  ") == text_key(text)
