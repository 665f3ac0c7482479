"""`demitasse index`: what each command prints, writes and refuses."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from command_line import RunCommand

from demitasse import Index
from demitasse.host.bundled import corpus

ROWS = [
    {"id": f"d{n}", "text": text, "lang": "en" if n % 2 else "de", "year": 2000 + n}
    for n, text in enumerate(corpus()[:20])
]
SMALL = ("--cut", "0x64")


@pytest.fixture
def documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return tmp_path


def test_rows_become_texts_ids_and_metadata(documents: Path, run: RunCommand) -> None:
    ran = run("index", "build", "docs.jsonl", "--out", "index", *SMALL)
    assert ran.code == 0, ran.err
    assert ran.err.strip() == "20 texts at 0x64 indexed in index"
    hit = Index.open("index").search(ROWS[3]["text"], k=1)[0]  # type: ignore[arg-type]
    assert (hit.id, hit.metadata) == ("d3", {"lang": "en", "year": 2003})


@pytest.mark.parametrize("name", ["docs.csv", "docs.json", "docs.tsv", "docs.parquet", "docs.jsonl.gz"])
def test_every_file_of_rows_is_read(name: str, documents: Path, run: RunCommand) -> None:
    import pandas

    table = pandas.DataFrame(ROWS)
    if name.endswith("parquet"):
        table.to_parquet(name)
    elif name.endswith("gz"):
        Path(name).write_bytes(gzip.compress(Path("docs.jsonl").read_bytes()))
    elif name.endswith("json"):
        Path(name).write_text(json.dumps(ROWS))
    else:
        table.to_csv(name, index=False, sep="," if name.endswith("csv") else "\t")
    assert run("index", "build", name, "--out", "index", *SMALL).code == 0
    index = Index.open("index")
    assert len(index) == 20
    (hit,) = index.search("coffee", k=1, where={"year": [2007, "2007"]})
    assert hit.id == "d7"


def test_lines_become_texts_with_numbers(documents: Path, run: RunCommand) -> None:
    (documents / "texts.txt").write_text("\n".join(str(row["text"]) for row in ROWS))
    assert run("index", "build", "texts.txt", "-o", "index", *SMALL).code == 0
    assert Index.open("index").search(str(ROWS[4]["text"]), k=1)[0].id == "4"


def test_columns_are_named(documents: Path, run: RunCommand) -> None:
    rows = [{"name": f"n{n}", "body": row["text"], "note": "x"} for n, row in enumerate(ROWS)]
    Path("named.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run("index", "build", "named.jsonl", "-o", "i", "--column", "body", "--id", "name", *SMALL).code == 0
    hit = Index.open("i").search(str(ROWS[4]["text"]), k=1)[0]
    assert (hit.id, hit.metadata) == ("n4", {"note": "x"})
    for words, said in (
        (("--column", "bodies"), "there is no column 'bodies'"),
        (("--column", "body", "--id", "key"), "there is no column 'key' with ids"),
        (("--column", "body", "--id", "none"), "there is no column 'none'"),
    ):
        ran = run("index", "build", "named.jsonl", "-o", "j", *words, *SMALL)
        assert ran.code == 2
        assert said in ran.err


def test_a_beir_folder_is_indexed_with_titles(documents: Path, run: RunCommand) -> None:
    Path("beir").mkdir()
    lines = [
        {"_id": str(n), "title": f"Title {n}", "text": row["text"], "metadata": {"url": "x"}}
        for n, row in enumerate(ROWS)
    ]
    Path("beir/corpus.jsonl.gz").write_bytes(gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode()))
    assert run("index", "build", "beir", "-o", "index", *SMALL).code == 0
    hit = Index.open("index").search(f"Title 5 {ROWS[5]['text']}", k=1)[0]
    assert (hit.id, hit.text) == ("5", f"Title 5 {ROWS[5]['text']}")
    assert hit.metadata == {"title": "Title 5", "url": "x"}
    ran = run("index", "build", "beir", "-o", "other", "--column", "text")
    assert (ran.code, "is a folder" in ran.err) == (2, True)
    Path("empty").mkdir()
    assert "has no corpus.jsonl" in run("index", "build", "empty", "-o", "other").err


def test_add_delete_compact_and_info(documents: Path, run: RunCommand) -> None:
    run("index", "build", "docs.jsonl", "-o", "index", *SMALL)
    Path("more.jsonl").write_text(
        '{"id": "d1", "text": "Another text."}\n{"id": "new", "text": "The moons of Jupiter."}\n'
    )
    assert run("index", "add", "index", "more.jsonl").err.strip() == "2 texts added to index, which has 21"
    ran = run("index", "delete", "index", "d2", "d3", "nobody")
    assert ran.err.strip() == "2 texts deleted from index, which has 19; 1 was not there"
    Path("ids.txt").write_text("d4\nd5\n")
    assert run("index", "delete", "index", "--input", "ids.txt").err.strip().startswith("2 texts deleted")
    shown = run("index", "info", "index").out
    assert "17 texts at 0x64, int8 vectors" in shown
    assert "5 deleted vectors wait for demitasse index compact" in shown
    assert run("index", "compact", "index").err.strip() == "index is compact: 17 texts"
    facts = json.loads(run("index", "info", "index", "--json").out)
    assert (facts["texts"], facts["deleted"], facts["files"], facts["model"]) == (17, 0, 1, "built-in")
    assert run("index", "delete", "index").code == 2
    assert run("index", "delete", "index", "a", "--input", "ids.txt").code == 2


def test_a_rebuild_changes_the_cut(documents: Path, run: RunCommand) -> None:
    run("index", "build", "docs.jsonl", "-o", "index", *SMALL)
    ran = run("index", "rebuild", "index", "--cut", "1x32")
    assert (ran.code, ran.err.strip()) == (0, "index is rebuilt at 1x32")
    index = Index.open("index")
    assert str(index.cut) == "1x32"
    assert index.search(str(ROWS[4]["text"]), k=1)[0].id == "d4"
    assert "neither a cut nor a model" in run("index", "rebuild", "index").err


def test_verify_names_what_is_wrong(documents: Path, run: RunCommand) -> None:
    run("index", "build", "docs.jsonl", "-o", "index", *SMALL)
    whole = run("index", "verify", "index")
    assert (whole.code, whole.out.strip()) == (0, "index is whole")
    (path,) = Path("index/vectors").iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    ran = run("index", "verify", "index")
    assert ran.code == 2
    assert ran.out.startswith(f"vectors/{path.name} has ")
    said = json.loads(run("index", "verify", "index", "--json").out)
    assert said["whole"] is False
    assert list(said["wrong"]) == [f"vectors/{path.name}"]


def test_mistakes_are_one_sentence(documents: Path, run: RunCommand) -> None:
    run("index", "build", "docs.jsonl", "-o", "index", *SMALL)
    for words, said in (
        (("build", "docs.jsonl", "-o", "index", *SMALL), "holds an index already"),
        (("build", "nothing.jsonl", "-o", "other"), "nothing.jsonl"),
        (("build", "docs.jsonl", "-o", "docs.jsonl"), "is a file"),
        (("build", "docs.jsonl", "-o", "other", "--cut", "much"), "cannot read 'much' as a cut"),
        (("info", "nowhere"), "so it is not an index"),
        (("add", "index", "docs.jsonl", "--column", "none"), "no column 'none'"),
    ):
        ran = run("index", *words)
        assert ran.code == 2, words
        assert said in ran.err, words
        assert ran.err.startswith("error: ")
        assert len(ran.err.strip().splitlines()) == 1
    assert run("index", "build", "docs.jsonl", "-o", "index", *SMALL, "--force").code == 0
    Path("empty.txt").write_text("")
    assert "there are no texts" in run("index", "build", "empty.txt", "-o", "other").err


def test_bad_rows_are_named(documents: Path, run: RunCommand) -> None:
    for row, said in (
        ('{"id": "a", "text": 7}', "line 2"),
        ('{"id": [1], "text": "x"}', "row 1 has [1] as its id"),
        ('{"text": "x"}', "row 1 has None as its id"),
    ):
        Path("bad.jsonl").write_text(json.dumps(ROWS[0]) + "\n" + row + "\n")
        ran = run("index", "build", "bad.jsonl", "-o", "bad", *SMALL)
        assert ran.code == 2
        assert said in ran.err, ran.err
        assert not Path("bad").exists()
