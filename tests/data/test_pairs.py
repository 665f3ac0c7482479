from __future__ import annotations

from pathlib import Path

import pytest
from row_files import ROWS, texts_of

from demitasse.data.pairs import Example, read_pairs
from demitasse.errors import DataError


def test_a_source_without_good_rows_names_the_first_problem() -> None:
    with pytest.raises(DataError, match=r"source 0 has no good row among 2; .*row 0: 'positive' is missing"):
        read_pairs([{"anchor": "x"}, 3], skip_bad_rows=True)


@pytest.mark.parametrize("given_source", [3, None, iter([("x", "y")]), b"pairs.jsonl"])
def test_things_that_are_not_a_source_are_refused(given_source: object) -> None:
    with pytest.raises(DataError, match=r"source 1 is of type \w+; give a file path"):
        read_pairs(ROWS, given_source)
    with pytest.raises(DataError, match="give at least one file"):
        read_pairs()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"q": "query"}, "columns= maps to 'query'.*anchor, positive"),
        ({"q": "anchor", "r": "anchor"}, "columns= maps two columns to one name"),
        ({"q": "anchor", "s": "positive"}, "source 0 has no column 's'.*it has q, r, score"),
    ],
)
def test_column_mappings_that_do_not_fit_are_refused(columns: dict[str, str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_pairs([{"q": "x", "r": "y", "score": 3}], columns=columns, skip_bad_rows=True)


def test_only_the_mapped_columns_are_used() -> None:
    rows = [{"q": "x", "r": "y", "s": "z", "score": 3}, {"q": "x", "r": None}]
    data = read_pairs(rows[:1], columns={"q": "anchor", "r": "positive"})
    assert (data.sources[0].kind, texts_of(data)) == ("pairs", [("x", "y")])
    data = read_pairs(rows[:1], columns={"q": "a", "s": "b", "score": "score"})
    assert data.sources[0][0] == Example(("x", "z"), 3.0)
    data = read_pairs(rows[:1], columns={"q": "anchor", "r": "positive", "s": "negative_1"})
    assert data.sources[0][0] == Example(("x", "y", "z"))
    with pytest.raises(DataError, match="source 0 row 1: 'r' is missing"):
        read_pairs(rows, columns={"q": "anchor", "r": "positive"})


def test_weights_are_kept_and_checked() -> None:
    data = read_pairs(ROWS, [{"texts": ["x", "y"]}], weights=[1, 0.5])
    assert [source.weight for source in data.sources] == [1.0, 0.5]
    assert len(data) == 4
    with pytest.raises(DataError, match="weights= has 1 numbers for 2 sources"):
        read_pairs(ROWS, ROWS, weights=[1])
    for bad in (0, -1.0, float("nan"), float("inf"), True, "1"):
        with pytest.raises(DataError, match=r"weights must be a (finite )?number"):
            read_pairs(ROWS, weights=[bad])  # type: ignore[list-item]


def test_texts_come_in_order_with_recent_duplicates_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    data = read_pairs([("x", "y"), ("x", "z")], [{"texts": ["v", "w", "x"]}])
    assert list(data.texts()) == ["x", "y", "z", "v", "w"]
    assert list(data.texts(2)) == ["x", "y"]
    monkeypatch.setattr("demitasse.data.pairs.REMEMBERED", 2)
    assert list(data.texts()) == ["x", "y", "z", "v", "w", "x"]


def test_plain_texts(tmp_path: Path) -> None:
    """One text per line, a single column `text`, or strings: the same examples of one text each."""
    (tmp_path / "lines.txt").write_text("a cup\n\n  a mug \r\n", encoding="utf-8")
    (tmp_path / "rows.jsonl").write_text('{"text": "a cup"}\n{"text": "  a mug "}\n', encoding="utf-8")
    sources = [
        read_pairs(given).sources[0]
        for given in (tmp_path / "lines.txt", tmp_path / "rows.jsonl", ["a cup", "  a mug "])
    ]
    assert [sources[0][index].texts for index in (0, 1)] == [("a cup",), ("  a mug ",)]
    assert len({source.sha256 for source in sources}) == 1
    assert {(source.kind, source.paired) for source in sources} == {("plain", False)}
    assert read_pairs([("a cup", "a mug"), ("a", "b")]).sources[0].paired
    with pytest.raises(DataError, match="row 1: it is of kind plain but the first row is of kind pairs"):
        read_pairs([("a cup", "a mug"), "a text"])
    with pytest.raises(DataError, match="row 0: 'text' is empty"):
        read_pairs([" "])
