"""Files of rows in and out of `demitasse encode`."""

from __future__ import annotations

import datetime
import gzip
import json
import math
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zoo
from command_line import CommandResult, RunCommand
from row_files import write

from demitasse import Encoder, store

ROWS = [{"id": 7, "text": "kan lor"}, {"id": 8, "text": 'two\nlines, "quoted"'}, {"id": 9, "text": ""}]
TEXTS = [row["text"] for row in ROWS]
Encode = Callable[..., CommandResult]


@pytest.fixture
def encode(run: RunCommand, model: Path) -> Encode:
    """Runs `demitasse encode` at 1x8."""
    return lambda *arguments, **named: run("encode", "-m", model, "-c", "1x8", *arguments, **named)


def written(folder: Path, name: str, rows: list[dict[str, Any]]) -> Path:
    """A file of rows in the format that its name asks for."""
    path, table = folder / name, pd.DataFrame(rows)
    if name.endswith(".parquet"):
        table.to_parquet(path)
    elif "sv" in name:
        table.to_csv(path, index=False, sep="\t" if ".tsv" in name else ",")
    else:
        table.to_json(path, orient="records", lines=".jsonl" in name)
    return path


def lines(ran: CommandResult) -> list[dict[str, Any]]:
    assert ran.code == 0, ran.err
    return [json.loads(line) for line in ran.out.splitlines()]


FORMATS = ["r.jsonl", "r.jsonl.gz", "r.json", "r.json.gz", "r.csv", "r.csv.gz", "r.tsv", "r.TSV", "r.parquet"]


@pytest.mark.parametrize("name", FORMATS)
def test_a_column_of_every_format_is_encoded_and_ids_are_kept(
    name: str, encode: Encode, encoder: Encoder, tmp_path: Path
) -> None:
    path = written(tmp_path, name.lower(), ROWS).rename(tmp_path / name)
    found = lines(encode("-i", path, "--keep", "id"))
    assert [row["text"] for row in found] == TEXTS
    assert [int(row["id"]) for row in found] == [7, 8, 9]
    np.testing.assert_allclose([row["vector"] for row in found], encoder.cut(1, 8).encode(TEXTS), atol=1e-6)


@pytest.mark.parametrize("name", ["r.jsonl", "r.csv", "r.parquet"])
def test_the_column_is_the_named_one_or_text_or_the_only_one_with_strings(
    name: str, encode: Encode, tmp_path: Path
) -> None:
    two = written(tmp_path, name, [{"title": "kan", "body": "lor"}])
    assert [row["text"] for row in lines(encode("-i", two, "--column", "body"))] == ["lor"]
    ran = encode("-i", two)
    assert ran.code == 2
    assert "2 columns hold strings (columns: title, body); name one with --column" in ran.err
    ran = encode("-i", two, "--column", "text")
    assert (ran.code, ran.out) == (2, "")
    assert "there is no column 'text'; the columns are title, body" in ran.err
    assert "there is no column 'id'; the columns are" in encode("-i", two, "--column", "body", "--keep", "id").err
    one = written(tmp_path, name, [{"sentence": "kan lor"}])
    assert [row["text"] for row in lines(encode("-i", one))] == ["kan lor"]
    ran = encode("-i", one, "-o", tmp_path / "v.npy")
    assert "1 vectors of 1x8 written to" in ran.err
    assert "; the texts are the column 'sentence'" in ran.err


def test_json_strings_are_texts(encode: Encode, tmp_path: Path) -> None:
    for name, text in (("t.jsonl", '"kan"\n\n"lor"\n'), ("t.json", '["kan", "lor"]')):
        assert [row["text"] for row in lines(encode("-i", write(tmp_path / name, text)))] == ["kan", "lor"]


# The file, and what must be said about it.
BAD_FILES = {
    "n.jsonl": ('{"text": "a"}\n{"text": null}\n', "n.jsonl line 2: 'text' is missing; fix the row, or write ''"),
    "k.jsonl": ('{"text": "a"}\n\n{"id": 1}\n', "k.jsonl line 3: 'text' is missing"),
    "t.jsonl": ('{"text": "a"}\n{"text": 5}\n', "t.jsonl line 2: 'text' holds a value of type int, not a string"),
    "l.jsonl": ('{"text": "a"}\n["b", "c"]\n', "l.jsonl line 2: it is of type list, not a row with column names"),
    "b.jsonl": ('{"text": "a"}\n{"text": \n', "b.jsonl line 2: it is not JSON (Expecting value); fix the row"),
    "x.jsonl": ("a cup\na mug\n", "x.jsonl line 1: it is not JSON (Expecting value); write each row on one line"),
    "p.json": ('{"text": {"0": "a"}}', "p.json holds one object of columns, as pandas writes by default"),
    "n.csv": ("id,text\n1,a\n2\n", "n.csv line 3: 'text' is missing"),
    "e.csv": ("id;text\n1;a\n", "e.csv line 1 has no commas but 'id;text'"),
    "m.csv": ("id,text\n1,a\n2,b,c\n", "m.csv line 3: it has 3 fields but the header has 2"),
    "q.csv": ('text\n"a\n', "q.csv line 2: it cannot be parsed (unexpected end of data)"),
    "s.parquet": ("text\n", "s.parquet cannot be read as Parquet"),
    "z.jsonl": ("a\0b\n", "z.jsonl line 1 has a zero byte"),
    "none.jsonl": (None, "none.jsonl is missing"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_row_or_file_is_one_sentence(name: str, encode: Encode, tmp_path: Path) -> None:
    text, said = BAD_FILES[name]
    if text is not None:
        write(tmp_path / name, text)
    ran = encode("-i", tmp_path / name, "-o", tmp_path / "v.npy")
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert ran.err.partition("error: ")[2].count("\n") == 1
    assert not (tmp_path / "v.npy").exists()


def test_a_null_in_a_parquet_file_is_named_by_its_row(encode: Encode, tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a", None]}), tmp_path / "n.parquet")
    ran = encode("-i", tmp_path / "n.parquet")
    assert ran.code == 2
    assert "n.parquet row 1: 'text' is missing; fix the row, or write ''" in ran.err


BAD_OPTIONS = {
    "a column of lines": ("-i {here}/t.txt --column text", "t.txt is read as one text per line, without columns"),
    "columns of stdin": ("-i - --keep id", "- is read as one text per line"),
    "a column of arguments": ("--column text kan", "--column and --keep were given without --input"),
    "columns in npy": ("-i {here}/r.csv --keep id -o {here}/v.npy", "a .npy file holds vectors alone"),
    "an empty name": ("-i {here}/r.csv --keep id,", "--keep 'id,' has an empty name"),
    "two vectors": ("-i {here}/r.csv --keep vector", "--keep vector cannot be written beside the column 'vector'"),
    "two texts": ("-i {here}/r.csv --column id --keep text", "--keep text cannot be written beside the column 'text'"),
    "a folder as output": ("-i {here}/r.csv -o {here}/f.npy", "f.npy is a folder; give a file name"),
}


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_options_that_do_not_fit_are_refused(name: str, encode: Encode, tmp_path: Path) -> None:
    write(tmp_path / "t.txt", "kan\n")
    write(tmp_path / "r.csv", "id,text,vector\n1,kan,2\n")
    (tmp_path / "f.npy").mkdir()
    line, said = BAD_OPTIONS[name]
    ran = encode(*line.format(here=tmp_path).split())
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_columns_are_kept_once_in_their_order(encode: Encode, tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", '{"text": "kan", "id": 1, "tags": ["x", {"y": 2}]}\n{"text": "lor"}\n')
    found = lines(encode("-i", path, "--keep", "tags, id", "--keep", "id,text"))
    assert [{**row, "vector": None} for row in found] == [
        {"tags": ["x", {"y": 2}], "id": 1, "text": "kan", "vector": None},
        {"tags": None, "id": None, "text": "lor", "vector": None},
    ]
    assert list(found[0]) == ["tags", "id", "text", "vector"]


@pytest.mark.parametrize("kind", ["float32", "float16", "int8", "binary"])
def test_parquet_holds_ids_texts_vectors_and_what_made_them(
    kind: str, encode: Encode, encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demitasse.data.parquet_vectors.ROW_GROUP", 50)
    texts, out = zoo.sentences(120), tmp_path / "v.parquet"
    path = written(tmp_path, "r.parquet", [{"id": n, "text": text, "other": 1} for n, text in enumerate(texts)])
    ran = encode("-i", path, "--keep", "id", "--vectors", kind, "-o", out, "--prompt-name", "query")
    assert ran.code == 0, ran.err
    small, table = encoder.cut(1, 8), pq.read_table(out)
    assert table.column_names == ["id", "text", "vector"]
    assert (table["id"].to_pylist(), table["text"].to_pylist()) == ([*range(120)], texts)
    expected = store(small.encode(texts, prompt_name="query"), kind)
    assert table.schema.field("vector").type == pa.list_(pa.from_numpy_dtype(expected.dtype), expected.shape[1])
    vectors = table["vector"].combine_chunks().values.to_numpy().reshape(120, -1)
    assert np.abs(vectors.astype(float) - expected).max() <= (1 if kind == "int8" else 1e-3)
    assert json.loads(table.schema.metadata[b"demitasse"]) == {
        "schema": 1,
        "kind": "vectors",
        "model": small.name,
        "fingerprint": small.fingerprint,
        "cut": "1x8",
        "dims": 8,
        "vectors": kind,
        "prompt": "kan lor ",
    }
    assert pq.ParquetFile(out).metadata.num_row_groups == 3
    assert sorted(each.name for each in tmp_path.iterdir()) == ["r.parquet", "v.parquet"]


def test_types_of_kept_columns_survive_from_parquet_to_parquet(encode: Encode, tmp_path: Path) -> None:
    kept = pa.table(
        {
            "day": pa.array([datetime.date(2026, 1, 2), None]),
            "at": pa.array([datetime.datetime(2026, 1, 2, 3), None], pa.timestamp("ms", "UTC")),
            "price": pa.array([Decimal("1.20"), None], pa.decimal128(5, 2)),
            "small": pa.array([1, None], pa.int8()),
            "kind": pa.array(["x", "x"]).dictionary_encode(),
            "tags": pa.array([["x"], []], pa.list_(pa.string())),
            "place": pa.array([{"x": 1, "y": None}, None], pa.struct({"x": pa.int32(), "y": pa.string()})),
            "raw": pa.array([b"\xff", None]),
        }
    )
    pq.write_table(kept.append_column("text", pa.array(["kan", "lor"])), tmp_path / "r.parquet")
    names = ",".join(kept.column_names)
    assert encode("-i", tmp_path / "r.parquet", "--keep", names, "-o", tmp_path / "v.parquet").code == 0
    assert pq.read_table(tmp_path / "v.parquet", columns=kept.column_names).cast(kept.schema).equals(kept)
    found = lines(encode("-i", tmp_path / "r.parquet", "--keep", names.removesuffix(",raw")))
    assert found[0]["day"] == "2026-01-02"
    assert found[0]["at"] == "2026-01-02T03:00:00+00:00"
    assert (found[0]["price"], found[0]["place"], found[1]["tags"]) == ("1.20", {"x": 1, "y": None}, [])
    ran = encode("-i", tmp_path / "r.parquet", "--keep", "raw")
    assert ran.code == 2
    assert "the column 'raw' holds bytes, which JSON cannot; keep it in a .parquet file" in ran.err


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"id": 1}, {"id": "x"}], "the column 'id' cannot be one type of values ("),
        ([{"id": 1}, {"id": 2}, {"id": "x"}], "; make it one, or write a .jsonl file"),
        ([{"id": None}, {"id": None}, {"id": 7}], "the column 'id' cannot be one type of values ("),
        ([{"id": 2**70}], "the column 'id' cannot be one type of values ("),
        ([{"id": [{"x": 1}]}], "the column 'id' holds objects, whose fields may differ"),
    ],
)
def test_a_kept_column_without_one_type_is_refused_in_parquet(
    rows: list[dict[str, Any]], said: str, encode: Encode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demitasse.data.parquet_vectors.ROW_GROUP", 2)
    text = "".join(json.dumps({**row, "text": "kan"}) + "\n" for row in rows)
    path = write(tmp_path / "r.jsonl", text)
    ran = encode("-i", path, "--keep", "id", "-o", tmp_path / "v.parquet")
    assert ran.code == 2
    assert said in ran.err
    assert [each.name for each in tmp_path.iterdir()] == ["r.jsonl"]
    assert [row["id"] for row in lines(encode("-i", path, "--keep", "id"))] == [row["id"] for row in rows]


def test_a_number_that_is_not_one_is_null_in_json(encode: Encode, tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["kan"], "score": [math.nan]}), tmp_path / "r.parquet")
    assert lines(encode("-i", tmp_path / "r.parquet", "--keep", "score"))[0]["score"] is None


def test_packed_json_lines_are_the_same_bytes_every_time(encode: Encode, tmp_path: Path) -> None:
    path = written(tmp_path, "r.csv", ROWS)
    for name in ("a.jsonl.gz", "b.jsonl.gz"):
        assert encode("-i", path, "-o", tmp_path / name).code == 0
    packed = (tmp_path / "a.jsonl.gz").read_bytes()
    assert packed == (tmp_path / "b.jsonl.gz").read_bytes()
    assert gzip.decompress(packed).decode() == encode("-i", path).out


@pytest.mark.parametrize("name", ["e.jsonl", "e.csv", "e.json", "e.parquet"])
@pytest.mark.parametrize("out", ["v.npy", "v.jsonl", "v.jsonl.gz", "v.parquet"])
def test_no_rows_make_no_vectors(name: str, out: str, encode: Encode, tmp_path: Path) -> None:
    path = write(tmp_path / name, {"e.csv": "id,text\n", "e.json": "[]"}.get(name, ""))
    if name == "e.parquet":
        pq.write_table(pa.table({"text": pa.array([], pa.string())}), path)
    ran = encode("-i", path, "-o", tmp_path / out)
    assert ran.code == 0, ran.err
    assert "0 vectors of 1x8 written" in ran.err
    if out == "v.parquet":
        assert pq.read_table(tmp_path / out).num_rows == 0


def test_half_a_character_does_not_stop_a_run(encode: Encode, tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", '{"text": "kan \\ud83d", "id": "x"}\n')
    assert encode("-i", path, "-o", tmp_path / "v.parquet").code == 0
    assert pq.read_table(tmp_path / "v.parquet")["text"].to_pylist() == ["kan \ufffd"]


def test_parquet_without_pyarrow_says_what_to_install(
    encode: Encode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, "r.parquet", ROWS)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for arguments in (("-i", path), ("-o", tmp_path / "v.parquet", "kan")):
        ran = encode(*arguments)
        assert ran.code == 2
        assert ".parquet needs pyarrow; pip install 'demitasse[data]'" in ran.err
