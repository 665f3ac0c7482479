from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from row_files import ROWS, json_lines, texts_of, write

from demitasse.data.pairs import read_pairs
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


class FakeParquetFile:
    """As much of pyarrow as is used, over a file of JSON lines."""

    def __init__(self, path: Path) -> None:
        self._lines = path.read_text().splitlines()
        if self._lines == ["broken"]:
            raise ValueError("Parquet magic bytes not found")

    def __enter__(self) -> FakeParquetFile:
        return self

    def __exit__(self, *problem: object) -> None:
        pass

    def iter_batches(self, batch_size: int) -> Iterator[FakeBatch]:
        assert batch_size > 1
        return (FakeBatch(self._lines[start : start + 2]) for start in range(0, len(self._lines), 2))


class FakeBatch:
    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

    def to_pylist(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._lines]


@pytest.fixture
def pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    parquet = ModuleType("pyarrow.parquet")
    parquet.ParquetFile = FakeParquetFile  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyarrow", ModuleType("pyarrow"))
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", parquet)


def written(folder: Path, suffix: str) -> Path:
    """`ROWS` in the format that `suffix` names."""
    path = folder / f"rows{suffix}"
    named = [dict(zip(("anchor", "positive"), row, strict=True)) for row in ROWS]
    if ".json" in suffix or suffix == ".parquet":
        return json_lines(path, *named)
    file = io.StringIO()
    table = csv.DictWriter(file, ["anchor", "positive"], delimiter="\t" if ".tsv" in suffix else ",")
    table.writeheader()
    table.writerows(named)
    return write(path, file.getvalue())


@pytest.mark.usefixtures("pyarrow")
@pytest.mark.parametrize(
    "suffix", [".jsonl", ".json", ".JSONL", ".jsonl.gz", ".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet"]
)
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


@pytest.mark.usefixtures("pyarrow")
def test_bad_rows_of_parquet_files_and_broken_files_are_named(tmp_path: Path) -> None:
    good = {"anchor": "a", "positive": "b"}
    path = json_lines(tmp_path / "p.parquet", good, good, {"anchor": "a", "positive": None})
    with pytest.raises(DataError, match=r"p.parquet row 2: 'positive' is missing"):
        read_pairs(path)
    path = write(tmp_path / "q.parquet", "broken")
    with pytest.raises(DataError, match=r"q.parquet cannot be read .*\(Parquet magic bytes not found\)"):
        read_pairs(path)


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
    formats = r"training files end in \.jsonl, \.json, \.csv, \.tsv and \.txt"
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
