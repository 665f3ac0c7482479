from __future__ import annotations

import csv
import gzip
import io
import json
import sys
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demitasse.data import row_store
from demitasse.data.columns import text_key
from demitasse.data.pairs import Example, Pairs, read_pairs
from demitasse.errors import DataError, MissingExtra

ROWS = [("a cup", "a mug"), ("caf\u00e9, to go", 'he said "now"'), ("two\nlines", "tab\there")]
MEND = "; mend the row, or pass skip_bad_rows=True to leave such rows out"


def write(path: Path, text: str) -> Path:
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def json_lines(path: Path, *rows: object) -> Path:
    return write(path, "".join(json.dumps(row) + "\n" for row in rows))


def rows_of(data: Pairs) -> list[tuple[str, ...]]:
    return [source[index].texts for source in data.sources for index in range(len(source))]


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
def test_every_format_gives_the_same_rows_and_the_same_hash(suffix: str, tmp_path: Path) -> None:
    path = written(tmp_path, suffix) if suffix != ".JSONL" else written(tmp_path, ".jsonl").rename(tmp_path / "r.JSONL")
    data = read_pairs(str(path))
    assert rows_of(data) == ROWS
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


def test_another_order_is_another_hash() -> None:
    assert read_pairs(ROWS).sources[0].sha256 != read_pairs(ROWS[::-1]).sources[0].sha256


@pytest.mark.parametrize("iterable", [False, True])
def test_datasets_are_read(iterable: bool) -> None:
    kind = type("Iterable", (FakeDataset,), {"__iter__": lambda self: iter(self._rows)}) if iterable else FakeDataset
    dataset = kind([{"question": a, "answer": b, "id": 7} for a, b in ROWS])
    data = read_pairs(dataset, columns={"question": "anchor", "answer": "positive"})
    assert (rows_of(data), data.sources[0].name) == (ROWS, "source 0")


def test_a_dataset_of_splits_is_refused() -> None:
    dataset = FakeDataset([{"anchor": "a", "positive": "b"}])
    dataset.column_names = {"train": ["anchor"], "test": ["anchor"]}
    with pytest.raises(DataError, match=r"source 0 is a dataset of several splits \(train, test\); give one of them"):
        read_pairs(dataset)


def test_parquet_without_pyarrow_is_the_line_to_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "pyarrow.parquet", raising=False)
    with pytest.raises(MissingExtra) as caught:
        read_pairs(write(tmp_path / "p.parquet", "PAR1"))
    assert str(caught.value) == "reading p.parquet needs pyarrow; pip install 'demitasse[data]'"


@pytest.mark.usefixtures("pyarrow")
def test_parquet_places_and_broken_files(tmp_path: Path) -> None:
    good = {"anchor": "a", "positive": "b"}
    path = json_lines(tmp_path / "p.parquet", good, good, {"anchor": "a", "positive": None})
    with pytest.raises(DataError) as caught:
        read_pairs(path)
    assert str(caught.value) == f"p.parquet row 2: 'positive' is missing{MEND}"
    path = write(tmp_path / "q.parquet", "broken")
    with pytest.raises(DataError, match=r"q.parquet cannot be read as Parquet \(Parquet magic bytes not found\); copy"):
        read_pairs(path)


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
    assert source.texts_per_row == (len(texts) if kind != "groups" else 2)


@pytest.mark.parametrize(
    ("row", "kind", "expected"),
    [
        (("x", "y"), "pairs", Example(("x", "y"))),
        (("x", "y", "z", "w"), "triples", Example(("x", "y", "z", "w"))),
        (["x", "y", 1], "scored", Example(("x", "y"), 1.0)),
    ],
)
def test_rows_without_names(row: Any, kind: str, expected: Example, tmp_path: Path) -> None:
    for given_rows in ([row], json_lines(tmp_path / "r.jsonl", row)):
        source = read_pairs(given_rows).sources[0]
        assert (source.kind, source[0]) == (kind, expected)


GOOD = {"anchor": "x", "positive": "y"}
TRIPLE = {**GOOD, "negatives": ["z"]}
GROUP = {"texts": ["x", "y"]}
SCORED = {**GOOD, "score": 1}
STRING = f"where a string must be{MEND}"
NUMBER = f"where a finite number must be{MEND}"
CLASS = "'label' beside 'premise' and 'hypothesis' is a class and not a score; keep the entailed rows only and pass "
UNKNOWN = "; name them anchor and positive (and negative or score) or texts, or say which is which with columns="


@pytest.mark.parametrize(
    ("first", "bad", "message"),
    [
        (GOOD, {"anchor": "x"}, f"'positive' is missing{MEND}"),
        (GOOD, {"anchor": None, "positive": "y"}, f"'anchor' is missing{MEND}"),
        (GOOD, {"query": "x"}, f"'positive' is missing{MEND}"),
        (GOOD, ["x"], f"'positive' is missing{MEND}"),
        (GOOD, {"anchor": "x", "positive": ""}, f"'positive' is empty{MEND}"),
        (GOOD, {"anchor": " \n", "positive": "y"}, f"'anchor' is empty{MEND}"),
        (GOOD, {"anchor": 3, "positive": "y"}, f"'anchor' holds something of type int {STRING}"),
        (GOOD, 7, f"it is of type int where a row must be{MEND}"),
        (GOOD, {"x": "1", "y": "2"}, f"its columns are x, y{UNKNOWN}"),
        (GOOD, {}, f"its columns are all empty{UNKNOWN}"),
        (GOOD, TRIPLE, f"it is of kind triples (negatives: 1) and the first row is of kind pairs{MEND}"),
        (GROUP, SCORED, f"it is of kind scored and the first row is of kind groups{MEND}"),
        (
            TRIPLE,
            {**GOOD, "negatives": ["z", "w"]},
            f"it is of kind triples (negatives: 2) and the first row is of kind triples (negatives: 1){MEND}",
        ),
        (TRIPLE, {**GOOD, "negative": 1}, f"'negative' holds something of type int {STRING}"),
        (GROUP, {"texts": ["x", "X "]}, f"'texts' has fewer than 2 different texts{MEND}"),
        (GROUP, {"texts": "x"}, f"'texts' holds something of type str where a list of strings must be{MEND}"),
        (GROUP, {"texts": ["x", None]}, f"'texts' holds something of type NoneType {STRING}"),
        (SCORED, {**GOOD, "score": "high"}, f"'score' is 'high' {NUMBER}"),
        (SCORED, {**GOOD, "score": float("nan")}, f"'score' is nan {NUMBER}"),
        (SCORED, {**GOOD, "score": True}, f"'score' is True {NUMBER}"),
        (SCORED, {**GOOD, "score": [1]}, f"'score' is [1] {NUMBER}"),
        (SCORED, {**GOOD, "score": 10**400}, f"'score' is 1{'0' * 39} {NUMBER}"),
        (
            GOOD,
            {"premise": "x", "hypothesis": "y", "label": 0},
            CLASS + "columns={'premise': 'anchor', 'hypothesis': 'positive'}",
        ),
    ],
)
def test_a_bad_row_is_named_or_left_out(first: object, bad: object, message: str, tmp_path: Path) -> None:
    path = json_lines(tmp_path / "pairs.jsonl", first, bad, first)
    with pytest.raises(DataError) as caught:
        read_pairs(path)
    assert str(caught.value) == f"pairs.jsonl line 2: {message}"
    source = read_pairs(path, skip_bad_rows=True).sources[0]
    assert (len(source), source.skipped, source.weight) == (2, 1, 2.0)


def test_a_line_that_is_not_json(tmp_path: Path) -> None:
    path = write(tmp_path / "pairs.jsonl", '\n["x", "y"]\n\n{"anchor": "x"\n' + "[" * 100_000 + "\n")
    with pytest.raises(DataError) as caught:
        read_pairs(path)
    assert str(caught.value) == f"pairs.jsonl line 4: it is not JSON (Expecting ',' delimiter){MEND}"
    assert read_pairs(path, skip_bad_rows=True).sources[0].skipped == 2


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("x\n", "'positive' is missing"),
        ("x,y,z\n", "it has 3 fields and the header has 2"),
        ('"x"y,z\n', "it cannot be taken apart (',' expected after '\"')"),
        ('x,"y\n', "it cannot be taken apart (unexpected end of data)"),
        (f"x,{'y' * 200_000}\n", "it cannot be taken apart (field larger than field limit (131072))"),
    ],
)
def test_a_bad_row_of_a_table(line: str, message: str, tmp_path: Path) -> None:
    # The quoted line break makes the third line of the file the second row; blank lines are no rows.
    path = write(tmp_path / "pairs.csv", f'\ufeffanchor,positive\r\n"x\r\nx",y\r\n\r\n{line}')
    with pytest.raises(DataError) as caught:
        read_pairs(path)
    assert str(caught.value) == f"pairs.csv line 5: {message}{MEND}"
    data = read_pairs(path, skip_bad_rows=True)
    assert (rows_of(data), data.sources[0].skipped) == ([("x\r\nx", "y")], 1)


def test_a_bad_header(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"t.csv line 1 names a column twice \(a, a\); give each a name of its own"):
        read_pairs(write(tmp_path / "t.csv", "a,a\nx,y\n"))
    with pytest.raises(DataError, match=r"t.csv line 1 is no header .*; write the names of the columns there"):
        read_pairs(write(tmp_path / "t.csv", '"a'))


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
@pytest.mark.parametrize("skip", [False, True])
def test_a_file_that_is_not_utf8_is_refused_with_the_line(suffix: str, skip: bool, tmp_path: Path) -> None:
    path = tmp_path / f"latin{suffix}"
    lines = {".jsonl": '["x", "y"]\n["caf\u00e9", "y"]\n', ".csv": "anchor,positive\ncaf\u00e9,y\n"}
    path.write_bytes(lines[suffix].encode("latin-1"))
    # Also where bad rows are left out: in another encoding all lines with accents would go.
    with pytest.raises(DataError) as caught:
        read_pairs(path, skip_bad_rows=skip)
    assert str(caught.value) == f"{path.name} line 2 is not UTF-8 (invalid continuation byte); save the file as UTF-8"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    packed = write(tmp_path / "cut.jsonl.gz", "".join(f'["{n}", "{n * n}"]\n' for n in range(5000)))
    packed.write_bytes(packed.read_bytes()[:9000])
    no_gzip = tmp_path / "plain.csv.gz"
    no_gzip.write_text("anchor,positive\n")
    (tmp_path / "folder.jsonl").mkdir()
    formats = r"of no known format; the names of files of rows end in \.jsonl, \.json, \.csv, \.tsv and \.txt"
    for name, message in {
        "cut.jsonl.gz": r"cut.jsonl.gz is broken after line \d+ \(Compressed file ended .*\); copy it again",
        "plain.csv.gz": r"cannot read .*plain.csv.gz.*Not a gzipped file",
        "folder.jsonl": "folder.jsonl is not a file; give the path of a file of rows",
        "none.jsonl": "none.jsonl is missing; give the path of a file of rows",
        "pairs.doc": formats,
        "pairs.parquet.gz": formats,
        "a-dataset-name": formats,
    }.items():
        with pytest.raises(DataError, match=message):
            read_pairs(tmp_path / name)


@pytest.mark.parametrize(("name", "text"), [("e.jsonl", ""), ("e.jsonl", "\n\n"), ("e.csv", ""), ("e.csv", "a,b\n")])
def test_a_file_without_rows(name: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read_pairs(write(tmp_path / name, text))
    assert str(caught.value) == f"{name} has no rows; give a source with at least one"


def test_a_source_without_a_good_row() -> None:
    with pytest.raises(DataError) as caught:
        read_pairs([{"anchor": "x"}, 3], skip_bad_rows=True)
    assert str(caught.value) == "source 0 has no good row among 2: row 0: 'positive' is missing; mend it"


@pytest.mark.parametrize("given_source", [3, None, {"anchor": "x"}, iter([("x", "y")]), b"pairs.jsonl"])
def test_what_is_no_source(given_source: object) -> None:
    with pytest.raises(DataError, match=r"source 1 is of type \w+; give the path of a file, a list of rows or"):
        read_pairs(ROWS, given_source)
    with pytest.raises(DataError, match="no source was given; give at least one file"):
        read_pairs()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"q": "query"}, r"columns= maps to 'query'; the names to map to are anchor, positive, negative \(or .*score$"),
        ({"q": "anchor", "r": "anchor"}, r"columns= maps two columns to one name \(.*\); map each to a name"),
        ({"q": "anchor", "s": "positive"}, "source 0 has no column 's', which columns= names; it has q, r, score$"),
    ],
)
def test_columns_that_do_not_fit(columns: dict[str, str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_pairs([{"q": "x", "r": "y", "score": 3}], columns=columns, skip_bad_rows=True)


def test_only_the_columns_that_are_named_are_used() -> None:
    rows = [{"q": "x", "r": "y", "s": "z", "score": 3}, {"q": "x", "r": None}]
    data = read_pairs(rows[:1], columns={"q": "anchor", "r": "positive"})
    assert (data.sources[0].kind, rows_of(data)) == ("pairs", [("x", "y")])
    data = read_pairs(rows[:1], columns={"q": "a", "s": "b", "score": "score"})
    assert data.sources[0][0] == Example(("x", "z"), 3.0)
    data = read_pairs(rows[:1], columns={"q": "anchor", "r": "positive", "s": "negative_1"})
    assert data.sources[0][0] == Example(("x", "y", "z"))
    with pytest.raises(DataError, match="source 0 row 1: 'r' is missing; mend the row"):
        read_pairs(rows, columns={"q": "anchor", "r": "positive"})


def test_weights() -> None:
    data = read_pairs(ROWS, [{"texts": ["x", "y"]}], weights=[1, 0.5])
    assert [source.weight for source in data.sources] == [1.0, 0.5]
    assert len(data) == 4
    with pytest.raises(DataError, match="weights= has 1 numbers for 2 sources; give one for each source"):
        read_pairs(ROWS, ROWS, weights=[1])
    for bad in (0, -1.0, float("nan"), float("inf"), True, "1"):
        with pytest.raises(DataError, match=r"weights= holds .*; every weight must be a finite number above 0"):
            read_pairs(ROWS, weights=[bad])  # type: ignore[list-item]


def test_texts_in_their_order_most_of_them_once(monkeypatch: pytest.MonkeyPatch) -> None:
    data = read_pairs([("x", "y"), ("x", "z")], [{"texts": ["v", "w", "x"]}])
    assert list(data.texts()) == ["x", "y", "z", "v", "w"]
    assert list(data.texts(2)) == ["x", "y"]
    monkeypatch.setattr("demitasse.data.pairs.REMEMBERED", 2)
    assert list(data.texts()) == ["x", "y", "z", "v", "w", "x"]


def test_rows_by_number() -> None:
    source = read_pairs(ROWS).sources[0]
    assert source[-1].texts == ROWS[-1]
    for index in (3, -4):
        with pytest.raises(IndexError, match=f"source 0 has no row {index}; it has 3 rows"):
            source[index]


def test_half_a_surrogate_pair_is_mended(tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", '["broken \\ud83d", "whole \\ud83d\\ude00"]\n')
    assert rows_of(read_pairs(path)) == [("broken \ufffd", "whole \U0001f600")]


@given(st.lists(st.tuples(*[st.text(st.characters(exclude_categories=["Cs"])).filter(str.strip)] * 2), min_size=1))
def test_every_text_comes_back_as_it_was(rows: list[tuple[str, str]]) -> None:
    assert rows_of(read_pairs(rows)) == rows


@given(st.text())
def test_a_key_of_a_text_is_its_own_key(text: str) -> None:
    assert text_key(f"\t{text}  ") == text_key(text)


@pytest.mark.parametrize(("held", "count"), [(1 << 16, 200_000), (1 << 28, 2_000)])
def test_rows_are_on_disk_beyond_the_limit(
    held: int, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_store, "HELD", held)
    path = tmp_path / "many.jsonl"
    with path.open("w") as file:
        file.writelines(f'["anchor {n}", "positive {n}"]\n' for n in range(count))
    source = read_pairs(path).sources[0]
    assert len(source) == count
    assert source.stored._file._rolled == (count > 2_000)  # type: ignore[attr-defined]
    numbers = range(0, count, 97)
    with ThreadPoolExecutor(4) as pool:
        for number, row in zip(numbers, pool.map(source.__getitem__, numbers), strict=True):
            assert row.texts == (f"anchor {number}", f"positive {number}")


def test_memory_does_not_grow_with_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_store, "HELD", 1 << 16)
    path = tmp_path / "long.jsonl"
    with path.open("w") as file:
        file.writelines(f'["{n} {"a" * 2000}", "{n} {"b" * 2000}"]\n' for n in range(5000))
    tracemalloc.start()
    try:
        data = read_pairs(path)
        assert sum(1 for _ in data.texts(2)) == 2
        assert tracemalloc.get_traced_memory()[1] < 2 << 20  # of 20 MB
    finally:
        tracemalloc.stop()


def test_a_full_disk_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def __init__(self, max_size: int) -> None:
            pass

        def write(self, line: bytes) -> None:
            raise OSError(28, "No space left on device")

        def close(self) -> None:
            pass

    monkeypatch.setattr(row_store.tempfile, "SpooledTemporaryFile", Full)
    with pytest.raises(DataError, match=r"source 0 cannot be kept in .* \(.*No space left.*\); make room there or set"):
        read_pairs(ROWS)


def test_plain_texts(tmp_path):
    """A text a line, a column `text` alone, or strings: the same rows, of one text each."""
    (tmp_path / "lines.txt").write_text("a cup\n\n  a mug \r\n", encoding="utf-8")
    (tmp_path / "rows.jsonl").write_text('{"text": "a cup"}\n{"text": "  a mug "}\n', encoding="utf-8")
    read = [
        read_pairs(given).sources[0]
        for given in (tmp_path / "lines.txt", tmp_path / "rows.jsonl", ["a cup", "  a mug "])
    ]
    assert [row.texts for row in (read[0][0], read[0][1])] == [("a cup",), ("  a mug ",)]
    assert len({source.sha256 for source in read}) == 1
    assert {(source.kind, source.paired, source.texts_per_row) for source in read} == {("plain", False, 1)}
    assert read_pairs([("a cup", "a mug"), ("a", "b")]).sources[0].paired
    with pytest.raises(DataError, match="row 1: it is of kind plain and the first row is of kind pairs"):
        read_pairs([("a cup", "a mug"), "a text"])
    with pytest.raises(DataError, match="row 0: 'text' is empty"):
        read_pairs([" "])
