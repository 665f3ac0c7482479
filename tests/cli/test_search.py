"""`demitasse search`: hits for eyes and for programs, filters, and BEIR folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import RunCommand

from demitasse import DataError, Index, load
from demitasse.cli.search import parse_where
from demitasse.host.bundled import corpus

TEXTS = corpus()[:30]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    metadata = [{"lang": "en" if number % 2 else "de", "year": 2000 + number} for number in range(30)]
    Index.build(load().cut(2, 128), TEXTS, "index", metadata=metadata)
    return tmp_path


def test_hits_for_eyes(folder: Path, run: RunCommand) -> None:
    ran = run("search", "index", TEXTS[3], "-k", "2", "--layers", "1")
    assert ran.code == 0, ran.err
    head, line, first, *_ = ran.out.splitlines()
    assert head.split() == ["score", "id", "text"]
    assert set(line.strip()) == {"─"}
    assert first.split()[1] == "3"
    assert "lang: en, year: 2003" in ran.out
    several = run("search", "index", "coffee", "rain", "-k", "1").out
    assert "coffee" in several.splitlines()[0]
    assert "nothing found" in run("search", "index", "coffee", "--where", "lang=fr").out


def test_hits_for_programs(folder: Path, run: RunCommand) -> None:
    said = json.loads(run("search", "index", TEXTS[3], "rain", "-k", "2", "--json").out)
    assert [result["query"] for result in said["results"]] == [TEXTS[3], "rain"]
    first = said["results"][0]["hits"][0]
    assert first == {"id": "3", "score": first["score"], "text": TEXTS[3], "metadata": {"lang": "en", "year": 2003}}
    assert len(said["results"][1]["hits"]) == 2


@pytest.mark.parametrize(
    "options",
    [
        ("--coarse", "bits", "--shortlist", "30"),
        ("--coarse", "dims", "--recall", "0.95"),
        ("--coarse", "none"),
        ("--rerank", "5"),
        ("--model", "m"),
        ("--device", "cpu"),
    ],
)
def test_every_way_to_search_finds_the_text(options: tuple[str, ...], folder: Path, run: RunCommand) -> None:
    if "--model" in options:
        load().cut(1, 64).save(folder / "m")
    said = json.loads(run("search", "index", TEXTS[8], "-k", "1", "--json", *options).out)
    assert said["results"][0]["hits"][0]["id"] == "8"


def test_filters(folder: Path, run: RunCommand) -> None:
    words = ("search", "index", "coffee", "-k", "30", "--json")
    found = json.loads(run(*words, "--where", "lang=en", "--where", "year>=2020").out)["results"][0]["hits"]
    assert {hit["id"] for hit in found} == {str(number) for number in range(21, 30, 2)}
    found = json.loads(run(*words, "--where", '{"or": [{"year": 2001}, {"year": {"lt": 2001}}]}').out)
    assert {hit["id"] for hit in found["results"][0]["hits"]} == {"0", "1"}


@pytest.mark.parametrize(
    ("given", "parsed"),
    [
        (["lang=en"], {"lang": "en"}),
        (["year=2020"], {"year": [2020, "2020"]}),
        (["done=true"], {"done": [True, "true"]}),
        (["a = b = c"], {"a": "b = c"}),
        (["year<2020"], {"year": {"lt": 2020}}),
        (["name>=m"], {"name": {"gte": "m"}}),
        (['{"a": [1, 2]}'], {"a": [1, 2]}),
        (["a=1", "b>2"], {"and": [{"a": [1, "1"]}, {"b": {"gt": 2}}]}),
        (None, None),
    ],
)
def test_filters_as_they_are_typed(given: list[str] | None, parsed: object) -> None:
    assert parse_where(given) == parsed


@pytest.mark.parametrize("given", ["lang", "=en", "{lang: en}", "[1]", ""])
def test_what_is_no_filter_is_refused(given: str) -> None:
    with pytest.raises(DataError, match="--where"):
        parse_where([given])


def beir(folder: Path) -> None:
    (folder / "beir").mkdir()
    queries = [{"_id": f"q{number}", "text": TEXTS[number].split(".")[0]} for number in range(5)]
    (folder / "beir" / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in queries))
    judged = [f"q{number}\t{number}\t1" for number in range(4)]
    (folder / "beir" / "qrels.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *judged]))


def test_queries_of_a_beir_folder_are_scored(folder: Path, run: RunCommand) -> None:
    beir(folder)
    ran = run("search", "index", "--queries", "beir")
    assert ran.code == 0, ran.err
    assert ran.out.startswith("nDCG@10 100.00, recall@10 100.00  (4 queries, ")
    said = json.loads(run("search", "index", "--queries", "beir", "-k", "1", "--json").out)
    assert said["scores"] == {"nDCG@10": 100.0, "recall@10": 100.0}
    assert [(one["id"], one["hits"][0]["id"], len(one["hits"])) for one in said["results"]] == [
        (f"q{number}", str(number), 1) for number in range(4)
    ]


def test_queries_of_a_file(folder: Path, run: RunCommand) -> None:
    Path("queries.txt").write_text(f"{TEXTS[1]}\n\n{TEXTS[2]}\n")
    said = json.loads(run("search", "index", "--queries", "queries.txt", "-k", "1", "--json").out)
    assert [one["hits"][0]["id"] for one in said["results"]] == ["1", "2"]


def test_mistakes_are_one_sentence(folder: Path, run: RunCommand) -> None:
    Path("empty.txt").write_text("\n")
    for words, said in (
        (("nowhere", "coffee"), "has no index.json"),
        (("index", "coffee", "--queries", "x.txt"), "both as arguments and by --queries"),
        (("index", "coffee", "-k", "0"), "k must be a whole number of at least 1"),
        (("index", "coffee", "--layers", "7"), "deeper than this encoder"),
        (("index", "coffee", "--coarse", "byte"), "coarse must be one of"),
        (("index", "coffee", "--recall", "7"), "recall must be a share"),
        (("index", "coffee", "--where", "{}"), "at least one field"),
        (("index", "coffee", "--where", '{"and":' + "[" * 5000), "is not JSON"),
        (("index", "coffee", "--where", '{"and":[' * 40 + '{"a": 1}' + "]}" * 40), "nested more than 32 levels deep"),
        (("index", "--queries", "empty.txt"), "has no queries"),
        (("index", "--queries", "."), "has no queries.jsonl"),
    ):
        ran = run("search", *words)
        assert ran.code == 2, words
        assert said in ran.err, (words, ran.err)
        assert len(ran.err.strip().splitlines()) == 1
