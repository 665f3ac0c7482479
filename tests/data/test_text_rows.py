from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from row_files import write

from demitasse import DataError
from demitasse.data.text_rows import TextRow, read_text_rows, read_texts
from demitasse.planning.quality import quality_judge


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.txt", "a cup\n\na mug\n"),
        ("t.unknown", "a cup\n\na mug"),
        ("t.jsonl", '{"text": "a cup"}\n{"text": ""}\n{"text": "a mug", "id": 3}\n'),
        ("t.csv", 'id,text\n1,a cup\n2,""\n3,a mug\n'),
    ],
)
def test_texts_are_lines_or_a_column(name: str, text: str, tmp_path: Path) -> None:
    assert list(read_texts(write(tmp_path / name, text))) == ["a cup", "", "a mug"]


def test_quality_without_labels_comes_from_a_column_too(tmp_path: Path) -> None:
    rows = "".join(f'{{"text": "cup number {number}"}}\n' for number in range(60))
    judge = quality_judge(None, write(tmp_path / "t.jsonl", rows))
    assert [*judge.texts][:2] == ["cup number 0", "cup number 1"]  # type: ignore[union-attr]


def test_columns_that_only_later_rows_have_are_seen(tmp_path: Path) -> None:
    rows = '{"title": "x", "body": null}\n{"title": "y", "body": "z"}\n'
    with pytest.raises(DataError, match="2 columns hold strings"):
        read_text_rows(write(tmp_path / "t.jsonl", rows))
    late = '{"title": "x"}\n{"title": "y", "text": "z"}\n'
    with pytest.raises(DataError, match="line 1: 'text' is missing"):
        list(read_text_rows(write(tmp_path / "t.jsonl", late)).rows)


def test_only_the_columns_that_are_needed_are_read(tmp_path: Path) -> None:
    table = pa.table({"id": [1], "text": ["a cup"], "a.b": ["dotted"], "s": [{"text": "inner"}]})
    pq.write_table(table, tmp_path / "t.parquet")
    read = read_text_rows(tmp_path / "t.parquet", "a.b", ["id"])
    assert (read.column, read.types, [*read.rows]) == ("a.b", {"id": pa.int64()}, [TextRow("dotted", {"id": 1})])
    assert [*read_text_rows(tmp_path / "t.parquet", keep=["s"]).rows] == [TextRow("a cup", {"s": {"text": "inner"}})]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())], ids=str
)
def test_every_kind_of_arrow_string_is_a_text(kind: pa.DataType, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [7], "body": pa.array(["a cup"], kind)}), tmp_path / "t.parquet")
    assert list(read_texts(tmp_path / "t.parquet")) == ["a cup"]


def test_bytes_are_not_texts(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": [b"a cup"]}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match="row 0: 'text' holds a value of type bytes, not a string"):
        list(read_texts(tmp_path / "t.parquet"))


def test_a_parquet_file_that_is_broken_inside_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"text": [f"cup {number}" for number in range(5000)]}), path)
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + bytes(len(whole) // 2) + whole[100 + len(whole) // 2 :])
    with pytest.raises(DataError, match=r"t\.parquet cannot be read as Parquet .*; copy it again"):
        list(read_texts(path))
