from __future__ import annotations

import csv
import gzip
import io
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from demitasse import DataError
from demitasse.corpora import shards as shards_module
from demitasse.corpora.columns import choose_columns
from demitasse.corpora.options import CorpusOptions
from demitasse.corpora.shard_rows import ShardReader
from demitasse.corpora.shards import split
from demitasse.corpora.sources import changed, find_sources


def read_all(path: Path, rows: int, options: CorpusOptions | None = None) -> tuple[list[str], list[int]]:
    """All texts, and how many rows each shard has."""
    sources = find_sources(path)
    shards = split(sources, rows)
    reader = ShardReader(sources, choose_columns(sources, options or CorpusOptions()))
    texts = [text for shard in shards for text in reader.read(shard).texts]
    reader.close()
    return texts, [shard.rows for shard in shards]


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("name", ["lines.txt", "lines.txt.gz"])
@pytest.mark.parametrize("last", [True, False])
def test_lines_are_split_and_none_is_lost(name: str, ending: str, last: bool, tmp_path: Path) -> None:
    texts = [f"text {number}" for number in range(25)]
    data = "\ufeff".encode() + (ending.join(texts) + (ending if last else "")).encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    found, counts = read_all(tmp_path / name, 10)
    assert found == texts
    assert counts == [10, 10, 5]


@pytest.mark.parametrize("chunk", [7, 64, 1 << 20])
def test_shards_do_not_depend_on_how_a_file_is_read(
    chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["x" * random.randint(1, 30) for _ in range(200)]
    (tmp_path / "a.txt").write_text("\n".join(texts))
    whole = split(find_sources(tmp_path / "a.txt"), 33)
    monkeypatch.setattr(shards_module, "_CHUNK", chunk)
    assert split(find_sources(tmp_path / "a.txt"), 33) == whole
    assert [shard.rows for shard in whole] == [33] * 6 + [2]


def test_long_texts_make_smaller_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards_module, "SHARD_BYTES", 100)
    texts = ["a" * 39, "b" * 39, "c" * 39, "d" * 300, "e" * 5]
    (tmp_path / "a.txt").write_text("\n".join(texts))
    found, counts = read_all(tmp_path / "a.txt", 1000)
    assert found == texts
    assert counts == [2, 1, 1, 1]


@pytest.mark.parametrize("seed", range(5))
def test_a_table_is_split_between_rows_only(seed: int, tmp_path: Path) -> None:
    """Line breaks, quotes and delimiters inside fields, and quotes that open nothing."""
    chance = random.Random(seed)
    texts = ["".join(chance.choices('ab "\n,é', k=chance.randint(1, 12))) + "." for _ in range(100)]
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerows([["id", "text"], *enumerate(texts)])
    (tmp_path / "a.csv").write_text(written.getvalue() + '100,5" pipe\n', encoding="utf-8")
    found, counts = read_all(tmp_path / "a.csv", 7)
    assert found == [*texts, '5" pipe']
    assert sum(counts) == 101


@pytest.mark.parametrize(("group", "expected"), [(3, [9, 9, 7]), (25, [9, 9, 7]), (10, [10, 10, 5])])
def test_parquet_is_split_at_row_groups_unless_they_are_large(group: int, expected: list[int], tmp_path: Path) -> None:
    texts = [f"text {number}" for number in range(25)]
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet", row_group_size=group)
    found, counts = read_all(tmp_path / "a.parquet", 10)
    assert found == texts
    assert counts == expected


def test_a_shard_can_be_read_alone(tmp_path: Path) -> None:
    texts = [f"text {number}" for number in range(25)]
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress("\n".join(texts).encode()))
    pq.write_table(pa.table({"text": texts}), tmp_path / "b.parquet", row_group_size=25)
    for name in ("a.txt.gz", "b.parquet"):
        sources = find_sources(tmp_path / name)
        reader = ShardReader(sources, choose_columns(sources, CorpusOptions()))
        last, first = split(sources, 10)[2], split(sources, 10)[0]
        rows = reader.read(last)
        assert (rows.texts, rows.columns["id"]) == (texts[-len(rows.texts) :], list(range(25))[-len(rows.texts) :])
        assert reader.read(first).texts == texts[: first.rows]
        reader.close()


def test_folders_and_globs_are_files_in_order(tmp_path: Path) -> None:
    for name in ("b.txt", "a.jsonl", "sub/c.csv", "_corpus.txt", ".hidden.txt", "_old/d.txt", "picture.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    names = [Path(source.path).name for source in find_sources(tmp_path)]
    assert names == ["a.jsonl", "b.txt", "c.csv"]
    assert [Path(source.path).name for source in find_sources([str(tmp_path / "*.txt"), tmp_path])] == [
        "_corpus.txt",
        "b.txt",
        "a.jsonl",
        "c.csv",
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("missing.txt", "missing.txt is missing; give the path of a file"),
        ("*.txt", "no file matches '*.txt'"),
        ("picture.png", "the format of picture.png is not known; a corpus is read from files that end in .parquet"),
        ("empty", "the folder empty has no files to read"),
        ([], "sources were given no file"),
        (3, "sources must be files, folders or globs, not 3"),
    ],
)
def test_wrong_sources_are_one_sentence(
    given: object, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("picture.png").write_bytes(b"")
    Path("empty").mkdir()
    with pytest.raises(DataError) as refused:
        find_sources(given)
    assert said in str(refused.value)


def test_a_change_is_noticed_and_named(tmp_path: Path) -> None:
    one, other = tmp_path / "a.txt", tmp_path / "b.txt"
    one.write_text("a\n")
    other.write_text("b\n")
    before = find_sources([one, other])
    assert changed(before, find_sources([one, other])) is None
    assert changed(before, find_sources([other, one])) == "the files are given in another order"
    assert changed(before, find_sources([one])) == f"{other} is missing"
    assert changed(find_sources([one]), before) == f"{other} is new"
    other.write_text("c\n")
    assert changed(before, find_sources([one, other])) == f"{other} has changed"
