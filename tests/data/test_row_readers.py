from __future__ import annotations

import csv
import io
import json
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from row_files import ROWS, json_lines, texts_of, write

from demitasse.data.pairs import read_pairs
from demitasse.data.row_readers import records
from demitasse.errors import DataError, MissingExtra


class FakeDataset:
    """What a Hugging Face dataset looks like from here."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._rows = rows
        self.column_names: object = list(rows[0])

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self._rows[index]


def written(folder: Path, suffix: str) -> Path:
    """`ROWS` in the format that `suffix` names."""
    path = folder / f"rows{suffix}"
    named = [dict(zip(("anchor", "positive"), row, strict=True)) for row in ROWS]
    if suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(named), path)
        return path
    if "array" in suffix:
        return write(path, json.dumps(named, indent=2))
    if ".json" in suffix:
        return json_lines(path, *named)
    file = io.StringIO()
    table = csv.DictWriter(file, ["anchor", "positive"], delimiter="\t" if ".tsv" in suffix else ",")
    table.writeheader()
    table.writerows(named)
    return write(path, file.getvalue())


FORMATS = [".jsonl", ".json", ".JSONL", ".jsonl.gz", ".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet"]


@pytest.mark.parametrize("suffix", [*FORMATS, "-array.json", "-array.json.gz"])
def test_every_format_gives_the_same_data_and_the_same_hash(suffix: str, tmp_path: Path) -> None:
    path = written(tmp_path, suffix) if suffix != ".JSONL" else written(tmp_path, ".jsonl").rename(tmp_path / "r.JSONL")
    data = read_pairs(str(path))
    assert texts_of(data) == ROWS
    assert data.describe() == [
        {
            "name": path.name,
            "kind": "pairs",
            "rows": 3,
            "skipped": 0,
            "weight": 3.0,
            "sha256": read_pairs(ROWS).sources[0].sha256,
        }
    ]


@pytest.mark.parametrize("iterable", [False, True])
def test_datasets_are_read(iterable: bool) -> None:
    kind = type("Iterable", (FakeDataset,), {"__iter__": lambda self: iter(self._rows)}) if iterable else FakeDataset
    dataset = kind([{"question": a, "answer": b, "id": 7} for a, b in ROWS])
    data = read_pairs(dataset, columns={"question": "anchor", "answer": "positive"})
    assert (texts_of(data), data.sources[0].name) == (ROWS, "source 0")


def test_a_dataset_with_several_splits_is_refused() -> None:
    dataset = FakeDataset([{"anchor": "a", "positive": "b"}])
    dataset.column_names = {"train": ["anchor"], "test": ["anchor"]}
    with pytest.raises(DataError, match=r"source 0 .*\(train, test\); give one of them"):
        read_pairs(dataset)


def test_parquet_without_pyarrow_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "pyarrow.parquet", raising=False)
    with pytest.raises(MissingExtra, match=r"p.parquet needs pyarrow; pip install 'demitasse\[data\]'"):
        read_pairs(write(tmp_path / "p.parquet", "PAR1"))


def test_bad_rows_of_parquet_files_and_broken_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "p.parquet"
    pq.write_table(pa.table({"anchor": ["a"] * 3, "positive": ["b", "c", None]}), path)
    with pytest.raises(DataError, match=r"p.parquet row 2: 'positive' is missing"):
        read_pairs(path)
    for broken in (b"", b"broken", path.read_bytes()[:-100], b"PAR1" + b"\0" * 100 + b"PAR1"):
        path.write_bytes(broken)
        with pytest.raises(DataError, match=r"p.parquet cannot be read as Parquet \(.*\); copy it again"):
            read_pairs(path)


def test_a_parquet_file_in_row_groups_is_read_in_order(tmp_path: Path) -> None:
    texts = [f"text {number}" for number in range(5000)]
    pq.write_table(pa.table({"text": texts, "other": range(5000)}), tmp_path / "p.parquet", row_group_size=700)
    assert [row for _, row in records(tmp_path / "p.parquet", "p", ["text"])] == [{"text": text} for text in texts]


TABLES = {
    "dict": dict,
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "Arrow": pa.table,
    "Hugging Face": datasets.Dataset.from_dict,
    "Hugging Face stream": lambda columns: datasets.Dataset.from_dict(columns).to_iterable_dataset(),
}


@pytest.mark.parametrize("kind", TABLES)
def test_tables_are_read_as_files_are(kind: str) -> None:
    anchors, positives = zip(*ROWS, strict=True)
    data = read_pairs(TABLES[kind]({"anchor": [*anchors], "positive": [*positives]}))
    assert (texts_of(data), data.sources[0].sha256) == (ROWS, read_pairs(ROWS).sources[0].sha256)
    with pytest.raises(DataError, match="source 0 row 1: 'positive' is missing"):
        read_pairs(TABLES[kind]({"anchor": ["a", "b"], "positive": ["x", None]}))


def test_a_score_of_a_table_is_a_number() -> None:
    for kind in (pd.DataFrame, pl.DataFrame, pa.table):
        data = read_pairs(kind({"a": ["x", "y"], "b": ["y", "z"], "score": np.array([1, 2], np.float32)}))
        assert [data.sources[0][row].score for row in range(2)] == [1.0, 2.0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"anchor": ["a"], "positive": ["b", "c"]}, "different lengths"),
        ({"anchor": "a", "positive": "b"}, "source 0: 'anchor' of the dict is a str, not a list"),
        ({}, "source 0 has no rows"),
        (pl.LazyFrame({"anchor": ["a"]}), "collect"),
        (
            iter([("a", "b")]),
            "source 0 is of type list_iterator; give a file path, a list of rows, a table",
        ),
    ],
)
def test_what_is_no_table_is_refused(given: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_pairs(given)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('["x", "y"]\n["x", "y"]\n', "goes on after the end of its array; .* or call it .jsonl"),
        ('[["x", "y"], ["x"', r"row 1 is not JSON \(Expecting ',' delimiter\); give an array of rows"),
        ('[["x", "y"] ["z"]]', r"row 1 is not JSON \('\[' stands before it, not a comma\)"),
        ('[["x", "y"]', r"row 1 is not JSON \(the array does not end\)"),
        ('[["x", "y"],]', r"row 1 is not JSON \(Expecting value\)"),
        ("[" * 100_000, r"row 0 is not JSON \(maximum recursion depth exceeded"),
        (f"[{'9' * 5000}]", r"row 0 is not JSON \(Exceeds the limit"),
        ("[]", "has no rows"),
        ("[1]", "pairs.json row 0: it is of type int, not a row"),
        ('{"anchor": {"0": "x"}, "positive": {"0": "y"}}', "one object of columns, as pandas .* orient='records'"),
        ('{\n  "anchor": "x"\n}', "line 1: it is not JSON .*; write each row on one line, or an array of rows"),
    ],
)
def test_a_json_file_that_cannot_be_read_is_one_sentence(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        read_pairs(write(tmp_path / "pairs.json", text))


@pytest.mark.parametrize("piece", [1, 2, 7, 1000])
def test_an_array_is_read_wherever_its_pieces_end(piece: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demitasse.host.text_lines._PIECE", piece)
    rows = [["caf\u00e9 \U0001f600", 'a "quoted\\" text'], {"a": [1, {}], "b": None}, 12, -3.5e-7, "x", True, [], ""]
    text = json.dumps(rows, indent=3, ensure_ascii=False)
    assert [row for _, row in records(write(tmp_path / "r.json", f"\ufeff \n{text}\n "), "r")] == rows


def test_a_large_array_is_never_all_in_memory(tmp_path: Path) -> None:
    path = write(tmp_path / "r.json", json.dumps([{"text": "a cup of tea " * 100}] * 20_000))  # 26 MB
    rows = records(path, "r")
    next(rows)
    tracemalloc.start()
    assert sum(1 for _ in rows) == 19_999
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2e6


def test_a_row_of_an_array_that_would_fill_the_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demitasse.data.json_arrays.MAX_VALUE", 1 << 20)
    path = write(tmp_path / "r.json.gz", '["' + "x" * (5 << 20))
    with pytest.raises(DataError, match=r"r row 0 is not JSON \(it does not end within 1 MB\)"):
        list(records(path, "r"))


@pytest.mark.parametrize(("name", "text"), [("t.csv", "text;id\na cup;1\n"), ("t.tsv", "text,id\na cup,1\n")])
def test_another_separator_is_told(name: str, text: str, tmp_path: Path) -> None:
    wanted = {"t.csv": "commas", "t.tsv": "tabs"}[name]
    with pytest.raises(DataError, match=f"{name} line 1 has no {wanted} but 'text.id'; separate the columns by"):
        read_pairs(write(tmp_path / name, text))


def test_a_line_that_is_not_json_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "pairs.jsonl", '\n["x", "y"]\n\n{"anchor": "x"\n' + "[" * 100_000 + "\n")
    with pytest.raises(DataError, match=r"pairs.jsonl line 4: it is not JSON .*; fix the row"):
        read_pairs(path)
    assert read_pairs(path, skip_bad_rows=True).sources[0].skipped == 2


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("x\n", "'positive' is missing"),
        ("x,y,z\n", "it has 3 fields"),
        ('"x"y,z\n', "(',' expected after '\"')"),
        ('x,"y\n', "(unexpected end of data)"),
        (f"x,{'y' * 200_000}\n", "(field larger than field limit (131072))"),
    ],
)
def test_a_bad_row_of_a_table_is_named_or_skipped(line: str, message: str, tmp_path: Path) -> None:
    # The quoted line break makes the third line of the file the second row; blank lines are not rows.
    path = write(tmp_path / "pairs.csv", f'\ufeffanchor,positive\r\n"x\r\nx",y\r\n\r\n{line}')
    with pytest.raises(DataError) as caught:
        read_pairs(path)
    assert str(caught.value).startswith("pairs.csv line 5: ")
    assert message in str(caught.value)
    data = read_pairs(path, skip_bad_rows=True)
    assert (texts_of(data), data.sources[0].skipped) == ([("x\r\nx", "y")], 1)


def test_a_bad_header_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"t.csv line 1 names a column twice \(a, a\)"):
        read_pairs(write(tmp_path / "t.csv", "a,a\nx,y\n"))
    with pytest.raises(DataError, match=r"t.csv line 1 is not a header"):
        read_pairs(write(tmp_path / "t.csv", '"a'))


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
@pytest.mark.parametrize("skip", [False, True])
def test_a_file_that_is_not_utf8_is_refused_with_the_line(suffix: str, skip: bool, tmp_path: Path) -> None:
    path = tmp_path / f"latin{suffix}"
    lines = {".jsonl": '["x", "y"]\n["caf\u00e9", "y"]\n', ".csv": "anchor,positive\ncaf\u00e9,y\n"}
    path.write_bytes(lines[suffix].encode("latin-1"))
    # Also when bad rows are skipped: otherwise every line with an accent would be lost.
    with pytest.raises(DataError, match=f"{path.name} line 2 is not UTF-8"):
        read_pairs(path, skip_bad_rows=skip)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    truncated = write(tmp_path / "cut.jsonl.gz", "".join(f'["{n}", "{n * n}"]\n' for n in range(5000)))
    truncated.write_bytes(truncated.read_bytes()[:9000])
    not_gzip = tmp_path / "plain.csv.gz"
    not_gzip.write_text("anchor,positive\n")
    (tmp_path / "folder.jsonl").mkdir()
    formats = r"rows are read from files that end in \.jsonl, \.json, \.csv, \.tsv and \.txt"
    for name, message in {
        "cut.jsonl.gz": r"cut.jsonl.gz is broken after line \d+",
        "plain.csv.gz": r"cannot read .*plain.csv.gz.*Not a gzipped file",
        "folder.jsonl": "folder.jsonl is not a file",
        "none.jsonl": "none.jsonl is missing",
        "pairs.doc": formats,
        "pairs.parquet.gz": formats,
        "a-dataset-name": formats,
    }.items():
        with pytest.raises(DataError, match=message):
            read_pairs(tmp_path / name)


@pytest.mark.parametrize(("name", "text"), [("e.jsonl", ""), ("e.jsonl", "\n\n"), ("e.csv", ""), ("e.csv", "a,b\n")])
def test_a_file_without_rows_is_refused(name: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"{name} has no rows"):
        read_pairs(write(tmp_path / name, text))
