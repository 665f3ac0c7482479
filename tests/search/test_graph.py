"""The graph of the extra `ann`: built and replaced whole, never trusted blindly, and never in the way."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from demitasse import Encoder, FolderError, Index, MissingExtra, Scan, load
from demitasse.encoding.manifest import sha256_of
from demitasse.host.bundled import corpus
from demitasse.search import compacting, graph, searching

TEXTS = corpus()
GRAPH = Scan("graph")


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return load().cut(0, 64)


@pytest.fixture
def index(encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    monkeypatch.setattr(compacting, "LEAST", 100)
    facts = [{"n": number} for number in range(200)]
    return Index.build(encoder, TEXTS[:200], tmp_path / "index", metadata=facts, graph=True)


def graph_file(index: Index) -> Path:
    (path,) = (index.folder / "vectors").glob("*.usearch")
    return path


def test_it_finds_what_a_scan_finds(index: Index) -> None:
    facts = index.info()["graph"]
    assert facts["recall"] >= 0.99
    assert facts["below"] == 201
    for query in TEXTS[200:210]:
        exact = index.search(query, k=5, scan=Scan("none"))
        assert index.search(query, k=5, scan=GRAPH) == exact
        assert index.search(query, k=5) == exact
    assert index.verify() == {}


def test_a_search_reaches_every_vector(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    from usearch.index import Index as Usearch

    threads, add = list[object](), Usearch.add

    def watched(self: Usearch, *given: object, **named: object) -> object:
        threads.append(named["threads"])
        return add(self, *given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Usearch, "add", watched)
    index.compact(graph=True)
    assert threads == [1]  # with two, one graph in some hundreds has vectors that no search reaches
    file = graph_file(index)
    near = graph.Graph(file.parent, graph.GraphEntry(file.name, sha256_of(file), 1))
    vectors = load().cut(0, 64).encode(TEXTS[:200])
    assert [rows[0] for rows in near.near(vectors, 1)] == [*range(1, 201)]


def test_a_model_is_loaded_after_a_graph_was_searched(index: Index) -> None:
    lines = [
        "import sys, numpy as np, demitasse as dt",
        "hits = dt.Index.open(sys.argv[1]).search_vectors(np.eye(1, 64), k=3, scan=dt.Scan('graph'))",
        "print(len(hits[0]), dt.load().cut(0, 8).encode(['a small cup']).shape)",
    ]
    command = [sys.executable, "-c", "\n".join(lines), index.folder]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "3 (1, 8)\n"), done.stderr


def test_it_is_used_unless_there_is_a_filter(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[int] = []
    near = graph.Graph.near

    def counting(self: graph.Graph, queries: np.ndarray, *given: object) -> object:
        used.append(len(queries))
        return near(self, queries, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(graph.Graph, "near", counting)
    index.search(TEXTS[200:203], k=5)
    assert used == [3]
    assert {hit.metadata["n"] for hit in index.search(TEXTS[0], k=99, where={"n": {"lt": 9}})} == {*range(9)}
    index.search_vectors(np.ones((1, 48)), k=5)  # of fewer dims than the graph knows
    index.search(TEXTS[200], k=5, scan=Scan("bits"))
    assert used == [3]


def test_what_was_added_and_deleted_since_counts(index: Index) -> None:
    index.add(["The moons of Jupiter."], ids=["moons"])
    index.add(["The rings of Saturn."], ids=["rings"])
    assert index.search("the moons of Jupiter", k=1, scan=GRAPH)[0].id == "moons"
    index.add([TEXTS[7] + " Really."], ids=["7"])
    assert index.search(TEXTS[7], k=1, scan=GRAPH)[0].text == TEXTS[7] + " Really."
    index.delete(["moons", "8"])
    assert not {"moons", "8"} & {hit.id for hit in index.search("the moons of Jupiter", k=150, scan=GRAPH)}
    index.delete([str(number) for number in range(150)])
    left = {str(number) for number in range(150, 200)} | {"rings"}
    assert {hit.id for hit in index.search("coffee", k=60, scan=GRAPH)} == left
    assert index.verify() == {}


def test_compaction_makes_it_again_or_removes_it(index: Index) -> None:
    first = graph_file(index)
    index.delete(["1"])
    index.compact()
    assert graph_file(index) != first
    assert "1" not in {hit.id for hit in index.search(TEXTS[1], k=20, scan=GRAPH)}
    assert index.verify() == {}
    index.compact(graph=False)
    assert index.info()["graph"] is None
    assert not [*(index.folder / "vectors").glob("*.usearch")]
    assert len(index.search("coffee", k=5)) == 5
    index.compact(graph=True)
    assert index.search(TEXTS[9], k=1, scan=GRAPH)[0].id == "9"


def test_it_is_made_by_itself_for_many_texts(encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compacting, "FROM", 50)
    assert Index.build(encoder, TEXTS[:49], tmp_path / "few").info()["graph"] is None
    assert Index.build(encoder, TEXTS[:50], tmp_path / "many").info()["graph"] is not None
    assert Index.build(encoder, TEXTS[:50], tmp_path / "without", graph=False).info()["graph"] is None


def test_a_damaged_graph_is_never_followed(index: Index, encoder: Encoder) -> None:
    path = graph_file(index)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    again = Index.open(index.folder, encoder)
    with pytest.raises(FolderError, match="is not the file that was written"):
        again.search("coffee")
    assert again.verify() == {
        f"vectors/{path.name}": "is not the file that was written (its sha256 is not the one in the catalog)"
    }
    assert len(again.search("coffee", scan=Scan("bits"))) == 10
    path.unlink()
    assert list(again.verify()) == [f"vectors/{path.name}"]
    with pytest.raises(FolderError, match=r"cannot be read \(No such file or directory\); run demitasse index compact"):
        again.info()
    again.compact()
    assert again.verify() == {}
    assert again.search(TEXTS[5], k=1, scan=GRAPH)[0].id == "5"


@pytest.mark.parametrize("name", ["gone.usearch", "a\0b", "..", ""])
def test_a_graph_of_a_name_that_is_no_file_is_one_sentence(index: Index, encoder: Encoder, name: str) -> None:
    with closing(sqlite3.connect(index.folder / "texts.sqlite")) as catalog, catalog:
        (value,) = catalog.execute("SELECT value FROM settings WHERE name = 'graph'").fetchone()
        fields = json.dumps({**json.loads(value), "file": name})
        catalog.execute("UPDATE settings SET value = ? WHERE name = 'graph'", (fields,))
    assert index.verify()
    with pytest.raises(FolderError, match="run demitasse index compact to make it again"):
        Index.open(index.folder, encoder).info()
    with pytest.raises(FolderError, match="run demitasse index compact to make it again"):
        Index.open(index.folder, encoder).search("coffee")


def test_without_usearch_it_is_scanned_instead(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = index.search("coffee", k=5)
    monkeypatch.setitem(sys.modules, "usearch", None)
    assert index.search("coffee", k=5) == expected
    with pytest.raises(MissingExtra, match=r"pip install 'demitasse\[ann\]'"):
        index.search("coffee", scan=GRAPH)
    with pytest.raises(MissingExtra, match="a graph of near neighbours needs usearch"):
        index.compact(graph=True)
    assert len(index.search("coffee", k=5)) == 5
    assert searching.ANN.packages == ("usearch",)


def test_a_save_that_fails_leaves_the_old_one(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    import usearch.index

    before = graph_file(index).read_bytes()

    def failing(self: object, path: str) -> None:
        Path(path).write_bytes(before[:100])
        raise RuntimeError("the disk fails")

    monkeypatch.setattr(usearch.index.Index, "save", failing)
    with pytest.raises(FolderError, match=r"cannot write .*\.usearch \(the disk fails\)"):
        index.compact(graph=True)
    monkeypatch.undo()
    assert graph_file(index).read_bytes() == before
    assert index.verify() == {}
