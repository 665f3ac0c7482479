from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from demitasse import DataError, load
from demitasse.evaluation.task_files import STS, read_tasks
from demitasse.evaluation.tasks import PairTask, SearchTask
from demitasse.host.bundled import corpus

ROWS = [("a cup", "a mug", 4.5), ("a cup", "a bus", 0.0), ("a bus", "a train", 2.0)]
DOCUMENTS = [
    {"_id": "d1", "title": "Cup", "text": "You drink from it."},
    {"_id": "d2", "title": "", "text": "A bus has wheels."},
    {"_id": 3, "text": "Trains run on rails."},
]
QUERIES = [
    {"_id": "q1", "text": "What rolls?", "answer": "wheels"},
    {"_id": "q2", "text": "Nobody judged this."},
    {"_id": "q3", "text": "What holds tea?", "metadata": {"answer": "a cup"}},
]
JUDGED = [("q3", "d1", "2"), ("q1", "d2", "1"), ("q1", "3", "1"), ("q2", "d1", "0")]


def lines(rows: list[object]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def scored(path: Path, rows: list[tuple[str, str, float]] = ROWS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = lines([{"a": a, "b": b, "score": score} for a, b, score in rows])
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def beir(folder: Path, *, header: bool = True, judgements: str = "qrels.tsv", packed: str = "") -> Path:
    (folder / judgements).parent.mkdir(parents=True, exist_ok=True)
    for name, rows in (("corpus", DOCUMENTS), ("queries", QUERIES)):
        text = lines(rows).encode()
        (folder / f"{name}.jsonl{packed}").write_bytes(gzip.compress(text) if packed else text)
    table = [("query-id", "corpus-id", "score")] * header + JUDGED
    (folder / judgements).write_text("".join("\t".join(row) + "\n" for row in table))
    return folder


def sts(folder: Path) -> Path:
    for name in (*STS, "stsb-dev"):
        scored(folder / f"{name}.jsonl.gz", [*ROWS, ("a cup", name, 1.0)])
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder as people keep their data: the STS sets in one, retrieval in another, a file beside them."""
    sts(tmp_path / "sts")
    beir(tmp_path / "retrieval" / "cups")
    scored(tmp_path / "mine.jsonl")
    return tmp_path


def the_pairs(path: Path) -> PairTask:
    (task,) = read_tasks([path])
    assert isinstance(task, PairTask)
    return task


def the_search(path: Path) -> SearchTask:
    (task,) = read_tasks([path])
    assert isinstance(task, SearchTask)
    return task


@pytest.mark.parametrize("name", ["mine.jsonl", "mine.jsonl.gz", "mine.json"])
def test_a_file_of_scored_pairs_is_a_task(tmp_path: Path, name: str) -> None:
    task = the_pairs(scored(tmp_path / name))
    assert (task.name, task.group, task.metric, task.binary) == ("mine", "mine", "spearman", False)
    assert [*zip(task.left, task.right, task.gold, strict=True)] == ROWS


def test_tables_are_read_too_and_their_content_makes_the_hash(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("sentence1,sentence2,score\na cup,a mug,4.5\na cup,a bus,0\na bus,a train,2\n")
    (tmp_path / "tabs.tsv").write_text("a\tb\tlabel\na cup\ta mug\t4.5\na cup\ta bus\t0\na bus\ta train\t2.00\n")
    first, *others = (the_pairs(path) for path in (scored(tmp_path / "x.jsonl"), *tmp_path.glob("*.?sv")))
    assert len(others) == 2
    assert {task.sha256 for task in others} == {first.sha256}
    assert the_pairs(scored(tmp_path / "fewer.jsonl", ROWS[:2])).sha256 != first.sha256


def test_labels_that_are_all_0_or_1_are_matches(tmp_path: Path) -> None:
    task = the_pairs(scored(tmp_path / "match.jsonl", [("a", "b", 1), ("a", "c", 0), ("b", "c", 1.0)]))
    assert task.binary
    assert task.metric == "average precision"


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize(("judgements", "packed"), [("qrels.tsv", ""), ("qrels/test.tsv", ".gz")])
def test_a_beir_folder_is_a_task(tmp_path: Path, header: bool, judgements: str, packed: str) -> None:
    task = the_search(beir(tmp_path / "cups", header=header, judgements=judgements, packed=packed))
    assert (task.name, task.group, task.metric) == ("cups", "cups", "ndcg@10")
    assert task.documents == ("Cup You drink from it.", "A bus has wheels.", "Trains run on rails.")
    assert task.queries == ("What rolls?", "What holds tea?")  # nothing answers the other one
    assert task.judgements == ({1: 1.0, 2: 1.0}, {0: 2.0})
    assert task.answers == ("wheels", "a cup")


def test_a_perfect_encoder_gets_everything(tmp_path: Path) -> None:
    task = the_search(beir(tmp_path / "cups"))
    scores = task.score(queries=np.array([[0, 0.6, 0.6], [1, 0, 0]]), documents=np.eye(3))
    assert scores.main == pytest.approx(100)
    assert scores.others == pytest.approx({"recall@1": 75, "mrr@10": 100})


@pytest.mark.parametrize("given", ["sts", "folder"])
def test_the_seven_sts_sets_are_one_group(data: Path, given: str) -> None:
    tasks = read_tasks(["sts"], data) if given == "sts" else read_tasks([data / "sts"])
    assert [(task.name, task.group) for task in tasks] == [(name, "sts") for name in STS]
    assert len({task.sha256 for task in tasks}) == 7
    assert read_tasks(["sts"], data / "sts")[0].sha256 == tasks[0].sha256  # data may be the folder itself


def test_names_are_looked_up_in_data(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = read_tasks(["mine", "cups", "sts12", "stsb-dev.jsonl.gz", "retrieval/cups/../../sts/sts13"], str(data))
    assert [task.name for task in tasks] == ["mine", "cups", "sts12", "stsb-dev", "sts13"]
    assert [task.group for task in tasks] == [task.name for task in tasks]
    monkeypatch.chdir(data / "sts")
    scored(data / "sts" / "mine.csv.gz", ROWS[:2]).rename(data / "sts" / "here.jsonl.gz")
    assert [task.name for task in read_tasks(["here", "sample", "mine"], data / "retrieval" / "..")] == [
        "here",
        "sample-pairs",
        "sample-search",
        "mine",
    ]
    assert [task.name for task in read_tasks(["sts14"])] == ["sts14"]  # as a path, without its suffix


def test_the_sample_is_complete_and_consistent() -> None:
    pairs, search = read_tasks(["sample"])
    assert isinstance(pairs, PairTask)
    assert isinstance(search, SearchTask)
    assert len(pairs.left) == len({*pairs.left, *pairs.right}) / 2 >= 150
    assert set(pairs.gold) == {step / 2 for step in range(11)}
    assert len(search.queries) == len(set(search.queries)) >= 60
    assert search.documents == tuple(corpus())
    assert not {*search.queries} & {*search.documents}
    assert sum(len(judged) > 1 for judged in search.judgements) >= 5


def test_the_sample_scores_a_deep_cut_above_a_shallow_one() -> None:
    encoder = load()
    pairs, search = read_tasks(["sample"])
    assert isinstance(pairs, PairTask)
    assert isinstance(search, SearchTask)
    for task, sides, least in (
        (pairs, (pairs.left, pairs.right), 70),
        (search, (search.queries, search.documents), 85),
    ):
        deep, shallow = (task.score(*map(cut.encode, sides)).main for cut in (encoder, encoder.cut(0, 32)))
        assert deep > least
        assert deep > shallow + 5 > 5


def change(name: str, old: str, new: str) -> Callable[[Path], object]:
    def write(folder: Path) -> None:
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new))

    return write


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "queries.jsonl").unlink(), "has no queries.jsonl; a search task needs"),
        (lambda folder: (folder / "qrels.tsv").unlink(), "has no qrels.tsv and no qrels/test.tsv; put the judgements"),
        (
            lambda folder: (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n"),
            "no judgement with a grade above 0",
        ),
        (lambda folder: (folder / "qrels.tsv").write_bytes(b"q1\td2\t1\nq\xff"), "qrels.tsv line 2 is not UTF-8"),
        (lambda folder: (folder / "corpus.jsonl").write_text(""), "corpus.jsonl has no rows; give a file with"),
        (change("qrels.tsv", "q1\td2", "q1\td9"), "line 3 names 'd9', which is not in corpus.jsonl"),
        (change("qrels.tsv", "q1\td2", "q9\td2"), "line 3 names 'q9', which is not in queries.jsonl"),
        (change("qrels.tsv", "d2\t1", "d2\tyes"), r"line 3 is 'q1\td2\tyes'; every line must be a query, a document"),
        (change("qrels.tsv", "d2\t1", "d2\tinf"), r"line 3 is 'q1\td2\tinf'; every line must be a query, a document"),
        (change("qrels.tsv", "q1\td2\t1", "q1 d2 1"), "line 3 is 'q1 d2 1'; every line must be a query, a document"),
        (change("corpus.jsonl", '"_id": 3', '"id": 3'), "line 3 has no '_id' or no 'text'"),
        (change("corpus.jsonl", '"d2"', '"d1"'), "line 2 repeats the '_id' 'd1'"),
        (change("queries.jsonl", '"What holds tea?"', "null"), "line 3 has no '_id' or no 'text'"),
        (change("queries.jsonl", '{"_id": "q2"', "q2"), "queries.jsonl line 2: it is not JSON"),
    ],
)
def test_an_inconsistent_folder_is_refused(tmp_path: Path, spoil: Callable[[Path], object], message: str) -> None:
    folder = beir(tmp_path / "cups")
    spoil(folder)
    with pytest.raises(DataError) as problem:
        read_tasks([folder])
    assert message in str(problem.value)
    assert str(folder) in str(problem.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "x.jsonl has no rows; give a source with at least one"),
        (lines([{"a": "a cup", "b": "a mug"}]), "has pairs without scores; a task needs the columns a, b"),
        (
            lines([{"texts": ["a cup", "a mug"]}]),
            "has groups without scores; a task needs the columns a, b",
        ),
        (
            lines([{"a": "a cup", "b": "a mug", "score": 2}] * 3),
            "has the score 2 for every pair; give pairs with",
        ),
        (lines([{"a": "a cup", "b": "", "score": 2}]), "x.jsonl line 1: 'b' is empty"),
    ],
)
def test_a_file_that_is_not_a_task_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    with pytest.raises(DataError) as problem:
        read_tasks([path])
    assert message in str(problem.value)
    assert "skip_bad_rows" not in str(problem.value)  # an option that evaluate does not have


def test_an_unknown_task_is_named_with_a_similar_one(data: Path) -> None:
    for given, message in (
        ("cup", "there is no task 'cup' here or in .* .did you mean 'cups'.*give a file, a folder, a name in data"),
        ("sst", "did you mean 'sts'"),
        ("nothing-like-it", r"there is no task 'nothing-like-it' here or in \S+; give a file"),
    ):
        with pytest.raises(DataError, match=message):
            read_tasks([given], data)
    with pytest.raises(DataError, match=r"there is no task 'smaple' here \(did you mean 'sample'\?\); give"):
        read_tasks(["smaple"])
    with pytest.raises(DataError, match="absent is not a folder; give the folder with the tasks as data"):
        read_tasks(["cups"], data / "absent")
    with pytest.raises(DataError, match="retrieval is not a task; give one with the seven STS sets"):
        read_tasks([data / "retrieval"])
    (data / "sts" / "sts15.jsonl.gz").unlink()
    with pytest.raises(DataError, match=r"has no sts15.jsonl; it needs sts12, .*, or name single files"):
        read_tasks(["sts"], data)


def test_the_list_itself_is_checked(data: Path) -> None:
    with pytest.raises(DataError, match="no task was given"):
        read_tasks([])
    with pytest.raises(DataError, match=r"must be a list of names and paths, not one alone; write \['sts'\]"):
        read_tasks("sts")
    with pytest.raises(DataError, match="a task was given as int; give a name or a path"):
        read_tasks([3])  # type: ignore[list-item]
    with pytest.raises(DataError, match="two tasks have the name 'sts12'; give each"):
        read_tasks(["sts", "sts12"], data)
    scored(data / "retrieval" / "sts.jsonl")
    with pytest.raises(DataError, match="two tasks have the name 'sts'"):
        read_tasks(["sts", data / "retrieval" / "sts.jsonl"], data)
