from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zoo
from trees import tree

import demitasse as dt
from demitasse import CorpusOptions, DataError, Encoder, FolderError, embed_corpus, store
from demitasse.corpora import embed as embed_module
from demitasse.corpora.manifest import MANIFEST, Manifest
from demitasse.host.only_writer import only_writer

TEXTS = zoo.sentences(60, seed=7)
SMALL = CorpusOptions(shard_rows=20)


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return dt.load().cut(0, 32)


def write_rows(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def documents(texts: list[str] = TEXTS) -> list[dict[str, Any]]:
    return [{"id": f"d{number}", "text": text, "n": number} for number, text in enumerate(texts)]


def vectors_of(folder: Path) -> tuple[list[Any], np.ndarray[Any, Any]]:
    table = pq.read_table(folder)
    column = table["vector"].combine_chunks()
    return table["id"].to_pylist(), column.values.to_numpy().reshape(len(table), -1)


@pytest.mark.parametrize("kind", ["float32", "float16", "int8", "binary"])
def test_vectors_are_those_of_encode(kind: str, encoder: Encoder, tmp_path: Path) -> None:
    source = write_rows(tmp_path / "a.jsonl", documents())
    summary = embed_corpus(encoder, source, tmp_path / "out", replace(SMALL, vectors=kind))
    ids, vectors = vectors_of(tmp_path / "out")
    assert ids == [f"d{number}" for number in range(60)]
    expected = store(encoder.encode(TEXTS), kind)
    assert (vectors.dtype, vectors.shape) == (expected.dtype, expected.shape)
    if kind == "binary":
        assert np.unpackbits(vectors ^ expected).mean() < 0.001  # a number that is almost 0 may have either sign
    else:
        np.testing.assert_allclose(vectors.astype(float), expected.astype(float), atol=1 if kind == "int8" else 1e-3)
    assert (summary.counts.rows, summary.encoded, summary.counts.truncated) == (60, 60, 0)
    assert summary.counts.tokens == int(encoder.count_tokens(TEXTS).sum())


def test_every_format_gives_the_same_vectors(encoder: Encoder, tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": TEXTS}), tmp_path / "a.parquet")
    (tmp_path / "a.txt").write_text("\n".join(TEXTS))
    (tmp_path / "a.csv").write_text("\n".join(["text", *TEXTS]))
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress("\n".join(json.dumps({"text": one}) for one in TEXTS).encode()))
    found = []
    for name in ("a.parquet", "a.txt", "a.csv", "a.jsonl.gz"):
        embed_corpus(encoder, tmp_path / name, tmp_path / f"{name}.out", SMALL)
        found.append(vectors_of(tmp_path / f"{name}.out"))
    for ids, vectors in found:
        assert ids == list(range(60))
        np.testing.assert_array_equal(vectors, found[0][1])


def test_columns_are_kept_with_their_types_and_facts_are_in_the_metadata(encoder: Encoder, tmp_path: Path) -> None:
    source = write_rows(tmp_path / "a.jsonl", documents())
    embed_corpus(encoder, source, tmp_path / "out", CorpusOptions(id="id", keep=("n", "text"), shard_rows=20))
    schema = pq.read_schema(tmp_path / "out" / "part-000001.parquet")
    assert [(field.name, str(field.type)) for field in schema] == [
        ("id", "string"),
        ("n", "int64"),
        ("text", "string"),
        ("vector", "fixed_size_list<element: float>[32]"),
    ]
    facts = json.loads(schema.metadata[b"demitasse"])
    assert (facts["cut"], facts["fingerprint"], facts["vectors"]) == ("0x32", encoder.fingerprint, "float32")
    assert (facts["shard"]["input"], facts["shard"]["first_row"], facts["shard"]["rows"]) == (str(source), 20, 20)
    assert pq.read_table(tmp_path / "out")["text"].to_pylist() == TEXTS


def test_several_sources_are_one_corpus_with_numbers_through_all(encoder: Encoder, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.txt").write_text("\n".join(TEXTS[20 * number : 20 * number + 20]))
    embed_corpus(encoder, tmp_path / "in", tmp_path / "out", CorpusOptions(shard_rows=15))
    ids, vectors = vectors_of(tmp_path / "out")
    assert ids == list(range(60))
    np.testing.assert_allclose(vectors, encoder.encode(TEXTS), atol=1e-5)


def test_bad_rows_go_to_a_side_file_and_the_run_goes_on(encoder: Encoder, tmp_path: Path) -> None:
    source = tmp_path / "a.jsonl"
    lines = [
        b'{"id": 1, "text": "a cup"}',
        b"not json",
        b'{"id": 2}',
        b'{"id": 3, "text": 7}',
        b"",
        b'{"text": "no id"}',
        b'{"id": "four", "text": "a mug"}',
        b'{"id": 5, "text": "  "}',
        b'["a", "b"]',
        b'{"id": 6, "text": "\xff"}',
        b'{"id": 7, "text": "a\x00b"}',
        b'{"id": 8, "text": "half a pair \\ud83d"}',
    ]
    source.write_bytes(b"\n".join(lines))
    summary = embed_corpus(encoder, source, tmp_path / "out", CorpusOptions(shard_rows=3))
    assert (summary.counts.rows, summary.counts.bad, summary.counts.empty) == (2, 8, 2)
    assert vectors_of(tmp_path / "out")[0] == [1, 8]
    files = sorted((tmp_path / "out" / "_bad_rows").iterdir())
    bad = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert {row["source"] for row in bad} == {str(source)}
    assert {row["location"]: row["reason"] for row in bad} == {
        "line 2": "it is not JSON (Expecting value)",
        "line 3": "'text' is missing",
        "line 4": "'text' is of type int, not a string",
        "line 6": "'id', its id, is missing",
        "line 7": "'id' is of type str and cannot be written as int64",
        "line 9": "it is of type list, not a row with column names",
        "line 10": "it is not UTF-8 (invalid start byte)",
        "line 11": "it has a zero byte, as binary files have",
    }


def test_bad_rows_of_tables(encoder: Encoder, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b'id,text\n1,a cup\n2,a,b\n3\n4,\xff\n5,"a\nmug"\n\n6,""\n')
    assert embed_corpus(encoder, tmp_path / "a.csv", tmp_path / "csv").counts.bad == 3
    assert vectors_of(tmp_path / "csv")[0] == ["1", "5"]
    pq.write_table(pa.table({"id": [1, None, 3, 4], "text": ["a cup", "a mug", None, " "]}), tmp_path / "a.parquet")
    counts = embed_corpus(encoder, tmp_path / "a.parquet", tmp_path / "parquet").counts
    assert (counts.rows, counts.bad, counts.empty) == (1, 2, 1)


@pytest.mark.parametrize("kill", [0, 1, 2])
def test_duplicates_are_left_out_also_after_a_resumption(
    kill: int, encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_rows(tmp_path / "a.jsonl", documents([*TEXTS[:30], *TEXTS[10:40], TEXTS[0], TEXTS[50], TEXTS[50]]))
    options = replace(SMALL, deduplicate=True)
    stop_after(kill, monkeypatch)
    with pytest.raises(StoppedError):
        embed_corpus(encoder, source, tmp_path / "out", options)
    monkeypatch.undo()
    counts = embed_corpus(encoder, source, tmp_path / "out", options).counts
    assert (counts.rows, counts.duplicates) == (41, 22)
    ids, vectors = vectors_of(tmp_path / "out")
    assert ids == [*(f"d{n}" for n in range(30)), *(f"d{n}" for n in range(50, 60)), "d61"]
    np.testing.assert_allclose(vectors, encoder.encode([*TEXTS[:40], TEXTS[50]]), atol=1e-5)


class StoppedError(Exception):
    """Stands for a process that was killed."""


def stop_after(shards: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, done = embed_module._Run._write, []

    def write(*arguments: Any) -> Any:
        if len(done) == shards:
            raise StoppedError
        done.append(1)
        return whole(*arguments)

    monkeypatch.setattr(embed_module._Run, "_write", write)


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.parquet"])
def test_a_run_that_was_stopped_goes_on_and_gives_the_same_bytes(
    name: str, encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "".join(json.dumps(row) + "\n" for row in [*documents(), {"id": 1}]).encode()
    source = tmp_path / name
    if name.endswith("parquet"):
        pq.write_table(pa.Table.from_pylist(documents()), source)
    else:
        source.write_bytes(gzip.compress(lines) if name.endswith("gz") else lines)
    embed_corpus(encoder, source, tmp_path / "whole", SMALL)
    stop_after(1, monkeypatch)
    with pytest.raises(StoppedError):
        embed_corpus(encoder, source, tmp_path / "out", SMALL)
    assert not (tmp_path / "out").exists()
    monkeypatch.undo()
    summary = embed_corpus(encoder, source, tmp_path / "out", SMALL)
    assert summary.encoded == 40
    assert tree(tmp_path / "out") == tree(tmp_path / "whole")
    assert not (tmp_path / "out.building").exists()
    again = embed_corpus(encoder, source, tmp_path / "out", SMALL)
    assert (again.encoded, again.counts) == (0, summary.counts)
    assert "there already" in str(again)


def test_what_has_changed_is_said_before_anything_is_done(
    encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = write_rows(tmp_path / "a.jsonl", documents()), tmp_path / "out"
    stop_after(1, monkeypatch)
    with pytest.raises(StoppedError):
        embed_corpus(encoder, source, out, SMALL)
    monkeypatch.undo()
    for other, options, said in (
        (encoder.cut(0, 16), SMALL, "the model is another"),
        (encoder, replace(SMALL, vectors="int8"), "vectors is another"),
        (encoder, CorpusOptions(shard_rows=30), "shard_rows is another"),
    ):
        with pytest.raises(FolderError, match=f"holds an unfinished run, and {said}"):
            embed_corpus(other, source, out, options)
    write_rows(source, documents(TEXTS[::-1]))
    with pytest.raises(FolderError, match=r"a\.jsonl has changed; .* use force"):
        embed_corpus(encoder, source, out, SMALL)
    assert embed_corpus(encoder, source, out, SMALL, force=True).encoded == 60
    write_rows(source, documents(TEXTS[:-1]))
    with pytest.raises(FolderError, match=r"out holds vectors already, and .*a\.jsonl has changed"):
        embed_corpus(encoder, source, out, SMALL)
    assert embed_corpus(encoder, source, out, SMALL, force=True).counts.rows == 59
    assert len(vectors_of(out)[0]) == 59


def test_a_folder_of_something_else_is_refused_and_others_files_are_kept(encoder: Encoder, tmp_path: Path) -> None:
    source, out = write_rows(tmp_path / "a.jsonl", documents()), tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    with pytest.raises(FolderError, match=r"mine\.txt"):
        embed_corpus(encoder, source, out)
    embed_corpus(encoder, source, out, force=True)
    assert (out / "mine.txt").read_text() == "mine"
    assert len(pq.read_table(out / "part-000000.parquet")) == 60


def test_two_runs_at_once_are_refused(encoder: Encoder, tmp_path: Path) -> None:
    source = write_rows(tmp_path / "a.jsonl", documents())
    (tmp_path / "out.building").mkdir()
    with (
        only_writer(tmp_path / "out.building", "_writer.lock"),
        pytest.raises(FolderError, match="is being changed by another process"),
    ):
        embed_corpus(encoder, source, tmp_path / "out")


def test_a_part_that_is_damaged_is_made_again(
    encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_rows(tmp_path / "a.jsonl", documents())
    stop_after(2, monkeypatch)
    with pytest.raises(StoppedError):
        embed_corpus(encoder, source, tmp_path / "out", SMALL)
    monkeypatch.undo()
    (tmp_path / "out.building" / "part-000000.parquet").write_bytes(b"PAR1")
    embed_corpus(encoder, source, tmp_path / "out", SMALL)
    assert len(vectors_of(tmp_path / "out")[0]) == 60


def test_the_manifest_reads_back(encoder: Encoder, tmp_path: Path) -> None:
    source = write_rows(tmp_path / "a.jsonl", documents())
    summary = embed_corpus(encoder, source, tmp_path / "out", SMALL)
    manifest = Manifest.read(tmp_path / "out")
    assert manifest is not None
    assert manifest.complete
    assert [counts.rows for counts in manifest.counts] == [20, 20, 20]
    before = (tmp_path / "out" / MANIFEST).read_bytes()
    manifest.write(tmp_path / "out")
    assert (tmp_path / "out" / MANIFEST).read_bytes() == before
    assert str(summary).startswith(f"60 rows, {summary.counts.tokens:,} tokens; ")


@pytest.mark.parametrize(
    ("rows", "options", "said"),
    [
        ([{"id": 1, "title": "a"}], {"column": "body"}, "there is no column 'body'"),
        ([{"id": 1, "text": "a"}], {"keep": ("url",)}, "there is no column 'url'"),
        ([{"id": 1, "text": "a"}], {"id": "key"}, "there is no column 'key'"),
        ([{"id": 1, "text": ""}], {}, "none of the 1 rows has a text"),
        ([], {}, "has no rows with columns"),
    ],
)
def test_a_corpus_that_cannot_be_read_is_one_sentence(
    rows: list[Any], options: dict[str, Any], said: str, encoder: Encoder, tmp_path: Path
) -> None:
    source = write_rows(tmp_path / "a.jsonl", rows)
    with pytest.raises(DataError, match=said):
        embed_corpus(encoder, source, tmp_path / "out", CorpusOptions(**options))


def test_parquet_files_that_do_not_fit_together_are_refused(encoder: Encoder, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "text": ["a"]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": ["1"], "text": ["a"]}), tmp_path / "b.parquet")
    pq.write_table(pa.table({"id": [1]}), tmp_path / "c.parquet")
    (tmp_path / "d.txt").write_text("a")
    for name, said in (
        ("b", "the column 'id' is string in .* and int64 in"),
        ("c", "has no column 'text'"),
    ):
        with pytest.raises(DataError, match=said):
            embed_corpus(encoder, [tmp_path / "a.parquet", tmp_path / f"{name}.parquet"], tmp_path / "out")
    with pytest.raises(DataError, match="so it has no ids and nothing to keep"):
        embed_corpus(encoder, [tmp_path / "a.parquet", tmp_path / "d.txt"], tmp_path / "out", CorpusOptions(id="id"))


def test_a_column_that_the_output_has_already_cannot_be_kept() -> None:
    for name in ("id", "vector"):
        with pytest.raises(DataError, match=f"the column '{name}' cannot be kept"):
            CorpusOptions(keep=(name,))
