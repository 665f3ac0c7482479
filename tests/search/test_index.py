"""`Index` as its users see it: build, open, search, add, delete, compact, rebuild."""

from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from demitasse import Cut, CutError, DataError, Encoder, FolderError, Hit, Index, Scan, load
from demitasse.encoding.vectors import restore, store
from demitasse.host.bundled import corpus
from demitasse.search import compacting, tuning, writer
from demitasse.search import scan as scanning

TEXTS = corpus()[:60]
IDS = [f"t{number}" for number in range(len(TEXTS))]
FACTS = [
    {"number": number, "even": number % 2 == 0, "kind": ["a", "b", "c"][number % 3]} for number in range(len(TEXTS))
]


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    """The built-in model, since the vectors of random models are all alike."""
    return load().cut(3, 128)


@pytest.fixture
def index(encoder: Encoder, tmp_path: Path) -> Index:
    return Index.build(encoder, TEXTS, tmp_path / "index", ids=IDS, metadata=FACTS)


def expected(encoder: Encoder, query: str, texts: list[str], layers: int = 3) -> np.ndarray:
    """The cosines of a query with texts as an index stores them."""
    documents = restore(store(encoder.encode_document(texts), "int8"), "int8")
    return documents @ encoder.cut(layers=layers).encode_query([query])[0]


def test_it_finds_what_sorting_all_cosines_finds(index: Index, encoder: Encoder) -> None:
    for layers in (None, 0, 2):
        hits = index.search("how much water for tea?", k=7, layers=layers)
        cosines = expected(encoder, "how much water for tea?", TEXTS, 3 if layers is None else layers)
        np.testing.assert_allclose([hit.score for hit in hits], np.sort(cosines)[::-1][:7], atol=1e-5)
        for hit in hits:
            number = IDS.index(hit.id)
            assert (hit.text, hit.metadata) == (TEXTS[number], FACTS[number])
            assert hit.score == pytest.approx(cosines[number], abs=1e-5)
            assert isinstance(hit, Hit)
            assert isinstance(hit.score, float)


def test_a_list_of_queries_gives_a_list_of_lists(index: Index) -> None:
    both = index.search(TEXTS[:2], k=3)
    assert [[hit.id for hit in hits] for hits in both] == [
        [hit.id for hit in index.search(text, 3)] for text in TEXTS[:2]
    ]
    assert index.search([], k=3) == []
    assert [hit.id for hit in index.search(TEXTS[5], k=1)] == ["t5"]


def test_fewer_texts_than_asked_for_are_all_of_them(index: Index) -> None:
    assert {hit.id for hit in index.search("coffee", k=1000)} == {*IDS}


def test_any_first_dims_of_a_query_search(index: Index, encoder: Encoder) -> None:
    whole = encoder.encode_query(["a bicycle tyre"])
    narrow = index.search_vectors(whole[:, :48], k=60)
    stored = restore(store(encoder.encode_document(TEXTS), "int8"), "int8")[:, :48]
    cosines = stored / np.linalg.norm(stored, axis=1, keepdims=True) @ (whole[0, :48] / np.linalg.norm(whole[0, :48]))
    assert [hit.score for hit in narrow[0]] == pytest.approx(np.sort(cosines)[::-1], abs=1e-5)
    small = Index.open(index.folder, encoder.cut(layers=1, dims=48))
    assert [hit.id for hit in small.search("a bicycle tyre", k=5)] == [
        hit.id for hit in index.search_vectors(encoder.cut(1, 48).encode_query(["a bicycle tyre"]), k=5)[0]
    ]


def test_where_restricts_a_search(index: Index) -> None:
    hits = index.search("coffee", k=60, where={"even": True, "number": {"gte": 30}, "kind": ["a", "b"]})
    assert {hit.id for hit in hits} == {f"t{n}" for n in range(30, 60) if n % 2 == 0 and n % 3 < 2}
    index.add(["a new one"], ["new"], [{"even": True, "number": 99, "kind": "a"}])
    index.delete(["t30"])
    again = index.search("coffee", k=60, where={"even": True, "number": {"gte": 30}, "kind": ["a", "b"]})
    assert {hit.id for hit in again} == {hit.id for hit in hits} - {"t30"} | {"new"}
    with pytest.raises(DataError, match="where"):
        index.search("coffee", where={"even": None})


def test_what_one_filter_found_is_never_that_of_another(index: Index) -> None:
    found = [index.search("coffee", k=60, where=MappingProxyType({"kind": kind})) for kind in "abc"]
    assert [{hit.metadata["kind"] for hit in hits} for hits in found] == [{"a"}, {"b"}, {"c"}]


def test_an_id_that_no_text_can_have_is_not_there(index: Index) -> None:
    assert index.delete(["\ud800", "t1"]) == 1
    assert index.get(["\ud800"]) == []


def test_default_ids_are_numbers_that_nobody_has(encoder: Encoder, tmp_path: Path) -> None:
    index = Index.build(encoder, TEXTS[:3], tmp_path / "index")
    assert index.add(TEXTS[3:5]) == ["3", "4"]
    assert index.add([TEXTS[5]], ids=["6"]) == ["6"]
    assert index.add(TEXTS[6:9]) == ["7", "8", "9"]
    index.delete(["9"])
    assert index.add([TEXTS[9]]) == ["10"]
    assert [hit.text for hit in index.search(TEXTS[8], k=1)] != [TEXTS[8]]


def test_a_text_with_an_id_that_is_there_replaces_it(index: Index) -> None:
    assert index.add(["the moons of Jupiter", "coffee"], ids=["t7", "fresh"], metadata=[{"new": 1}, None]) == [
        "t7",
        "fresh",
    ]
    assert len(index) == 61
    (hit,) = index.search("the moons of Jupiter", k=1)
    assert (hit.id, hit.text, hit.metadata) == ("t7", "the moons of Jupiter", {"new": 1})
    assert TEXTS[7] not in {hit.text for hit in index.search("coffee", k=99)}


def test_an_id_given_twice_is_refused(index: Index, encoder: Encoder, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the id 'a' was given twice"):
        index.add(["one", "two"], ids=["a", "a"])
    with pytest.raises(DataError, match="given twice"):
        Index.build(encoder, ["one", "two"], tmp_path / "other", ids=["a", "a"])
    assert len(index) == 60


def test_deleted_texts_are_not_found(index: Index) -> None:
    assert index.delete(["t0", "t1", "no such"]) == 2
    assert index.delete(["t0"]) == 0
    assert len(index) == 58
    assert not {"t0", "t1"} & {hit.id for hit in index.search(TEXTS[0], k=60)}
    index.delete(IDS)
    assert len(index) == 0
    assert index.search("coffee") == []
    index.compact()
    assert index.search("coffee") == []
    index.add(["one more"], ids=["x"])
    assert [hit.id for hit in index.search("coffee")] == ["x"]
    assert index.verify() == {}


def test_compaction_changes_no_result_and_leaves_one_file(index: Index) -> None:
    index.delete(IDS[::3])
    index.add(TEXTS[:20], ids=[f"n{number}" for number in range(20)])
    before = index.search("a bicycle tyre", k=99)
    index.compact()
    assert index.search("a bicycle tyre", k=99) == before
    assert len([*(index.folder / "vectors").iterdir()]) == 1
    assert index.info()["deleted"] == 0
    assert index.verify() == {}


def test_what_a_killed_compaction_left_goes_with_the_next_change(index: Index) -> None:
    left = [index.folder / f".texts.sqlite.0123abcd.part{journal}" for journal in ("", "-journal")]
    for path in left:
        path.write_bytes(b"half a catalog")
    assert index.verify() == {}
    index.compact()
    assert not any(path.exists() for path in left)


def test_many_small_additions_stay_few_files(index: Index) -> None:
    for number in range(40):
        index.add([f"a cup of coffee, number {number}"])
    assert index.info()["files"] <= 7
    assert len(index) == 100
    assert index.verify() == {}
    assert len([*(index.folder / "vectors").iterdir()]) == index.info()["files"]


def test_pieces_are_committed_one_by_one(encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demitasse.search.documents.pieces.__defaults__", (7,))
    index = Index.build(encoder, iter(TEXTS), tmp_path / "index", ids=iter(IDS), metadata=iter(FACTS))
    assert len(index) == 60
    assert index.search(TEXTS[33], k=1)[0].id == "t33"
    assert index.add(f"a train at {number}" for number in range(20)) == [str(number) for number in range(60, 80)]

    def failing() -> Iterator[str]:
        yield from (f"a tree of {number} years" for number in range(10))
        raise KeyError("the source ends")

    with pytest.raises(KeyError):
        index.add(failing())
    assert len(index) == 87  # the first piece of seven is there


def test_what_is_measured_is_kept_and_used(encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compacting, "LEAST", 20)
    monkeypatch.setattr(tuning, "EXACT_UP_TO", 30)
    index = Index.build(encoder, TEXTS[:25], tmp_path / "index")
    assert index.info()["measured"]["rows"] == 25
    index.add(TEXTS[25:50])
    assert index.info()["measured"]["rows"] == 25  # not twice as many yet
    index.add(TEXTS[50:])
    measured = index.info()["measured"]
    assert measured["rows"] == 60
    assert measured["shortlists"].keys() == {"bits", "dims"}
    for scan in (None, Scan("bits"), Scan("dims", shortlist=60), Scan(shortlist=60), Scan("none")):
        assert index.search(TEXTS[40], k=1, scan=scan)[0].id == "40"


def test_a_search_over_many_reads_the_first_bits_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compacting, "LEAST", 20)
    for name, value in {"EXACT_UP_TO": 30, "_LEAST": 20, "_MORE": 2, "_FEW": 1.0}.items():
        monkeypatch.setattr(tuning, name, value)
    index = Index.build(load().cut(layers=0), TEXTS, tmp_path / "index")
    assert index.info()["measured"]["shortlists"].keys() == {"bits", "dims", scanning.FIRST_BITS}
    left: list[int] = []
    all_bits = scanning._all_bits

    def counted(segments: Any, places: Any, query: Any, costs: Any) -> Any:
        left.append(len(places))
        return all_bits(segments, places, query, costs)

    monkeypatch.setattr(scanning, "_all_bits", counted)
    for number, scan in enumerate((Scan("bits", shortlist=20), Scan("bits", 0.8, 20))):
        assert index.search(TEXTS[number], k=1, scan=scan)[0].id == str(number)
    assert len(left) == 2
    assert min(left) >= 40


def test_reranking_uses_all_layers_of_the_model(encoder: Encoder, tmp_path: Path) -> None:
    index = Index.build(encoder.cut(layers=0, dims=64), TEXTS, tmp_path / "index")
    deep = Index.open(tmp_path / "index", encoder)
    hits = deep.search("how much water for tea?", k=5, rerank=60)
    cosines = encoder.encode_document(TEXTS) @ encoder.encode_query(["how much water for tea?"])[0]
    np.testing.assert_allclose([hit.score for hit in hits], np.sort(cosines)[::-1][:5], atol=1e-5)
    assert [hit.id for hit in hits] == [str(number) for number in np.argsort(-cosines)[:5]]
    assert len(index.search("coffee", k=2, rerank=1)) == 2


def test_a_generator_may_be_longer_than_memory(
    encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No more texts than two pieces are ever alive."""
    monkeypatch.setattr("demitasse.search.documents.pieces.__defaults__", (10,))
    given, made = [0], [0]
    encode = type(encoder).encode_document

    def counting(self: Encoder, texts: list[str], **options: object) -> np.ndarray:
        made[0] += len(texts)
        return encode(self, texts, **options)

    def texts() -> Iterator[str]:
        for number in range(100):
            given[0] += 1
            assert given[0] - made[0] <= 20
            yield f"a cup of coffee, number {number}"

    monkeypatch.setattr(type(encoder), "encode_document", counting)
    assert len(Index.build(encoder, texts(), tmp_path / "index")) == 100


def test_others_see_a_change_at_once(index: Index, encoder: Encoder) -> None:
    other = Index.open(index.folder, encoder)
    index.add(["the moons of Jupiter"], ids=["new"])
    assert other.search("the moons of Jupiter", k=1)[0].id == "new"
    assert len(other) == 61
    other.delete(["new"])
    other.compact()
    assert "new" not in {hit.id for hit in index.search("the moons of Jupiter", k=99)}


def test_threads_may_search_while_one_changes(index: Index) -> None:
    problems: list[BaseException] = []

    def search() -> None:
        try:
            for _ in range(30):
                hits = index.search_vectors(np.ones((2, 128)), k=5)
                assert [len(of_query) for of_query in hits] == [5, 5]
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=search) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(8):
        index.add([f"a cup of coffee, number {number}"], ids=["changing"])
        index.delete([f"t{number}"])
        index.compact()
    for thread in threads:
        thread.join()
    assert not problems


def test_it_can_be_pickled(index: Index) -> None:
    again = pickle.loads(pickle.dumps(index))
    assert again.search("coffee", k=3) == index.search("coffee", k=3)


def test_a_rebuild_encodes_the_same_texts_again(index: Index, encoder: Encoder) -> None:
    reader = Index.open(index.folder, encoder)
    index.delete(["t3"])
    index.rebuild(encoder.cut(layers=1, dims=64))
    for one in (index, reader):
        assert one.cut == Cut(1, 64)
        assert len(one) == 59
        hit = one.search(TEXTS[20], k=1)[0]
        assert (hit.id, hit.text, hit.metadata) == ("t20", TEXTS[20], FACTS[20])
    assert index.verify() == {}
    assert [path.name for path in index.folder.parent.iterdir()] == ["index"]


def test_texts_are_added_at_the_cut_of_the_index(index: Index, encoder: Encoder) -> None:
    index.rebuild(encoder.cut(layers=1, dims=64))
    deep = Index.open(index.folder, encoder)
    deep.add(["the moons of Jupiter"], ids=["new"])
    assert deep.search("the moons of Jupiter", k=1)[0].score == pytest.approx(1, abs=1e-2)
    shallow = Index.open(index.folder, encoder.cut(layers=0))
    assert shallow.search("the moons of Jupiter", k=1)
    with pytest.raises(FolderError, match="holds texts encoded at 1x64, and this encoder gives 0x128"):
        shallow.add(["a text"])


def test_it_opens_with_the_model_it_was_made_with(model_folder: Callable[..., Path], tmp_path: Path) -> None:
    made = Index.build(load(model_folder("BERT"), device="cpu").cut(layers=2), TEXTS[:9], tmp_path / "index")
    opened = Index.open(tmp_path / "index")
    assert opened.search(TEXTS[4], k=1) == made.search(TEXTS[4], k=1)
    described = json.loads((tmp_path / "index" / "index.json").read_text())
    assert described["cut"] == "2x32"
    described["model"]["folder"] = "/no/such/folder"
    (tmp_path / "index" / "index.json").write_text(json.dumps(described))
    moved = Index.open(tmp_path / "index")
    assert len(moved) == 9
    with pytest.raises(FolderError, match=r"there is no folder /no/such/folder; give the model"):
        moved.search("coffee")


def test_what_is_not_an_index_is_refused(encoder: Encoder, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(
        FolderError, match=r"has no index.json, so it is not an index; build one: demitasse index build"
    ):
        Index.open(tmp_path)
    with pytest.raises(FolderError, match="is not a demitasse model"):
        Index.build(encoder, TEXTS, tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_an_index_is_replaced_only_by_force(index: Index, encoder: Encoder) -> None:
    with pytest.raises(FolderError, match="holds an index already"):
        Index.build(encoder, ["other"], index.folder)
    again = Index.build(encoder, ["other"], index.folder, force=True)
    assert len(again) == len(index) == 1
    assert index.search("coffee")[0].text == "other"


@pytest.mark.parametrize(
    ("ids", "metadata", "said"),
    [
        (["a"], None, "ids has 1 entries, and there are more texts"),
        (["a", "b", "c"], None, "ids has more entries than the 2 texts"),
        (["a", 7], None, r"ids\[1\] is 7; every id must be a string"),
        (["a", ""], None, r"ids\[1\] is ''"),
        ("ab", None, "ids must be a list"),
        (None, [{}], "metadata has 1 entries"),
        (None, [{}, "x"], r"metadata\[1\] is 'x'; give a dict"),
        (None, [{}, {"a": object}], r"metadata\[1\] cannot be written as JSON"),
        (None, [{}, {1: 2}], "not a string"),
        (None, [{"a": float("nan")}, {}], "not a JSON number"),
    ],
)
def test_wrong_ids_and_metadata_are_one_sentence(ids, metadata, said, index: Index) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(DataError, match=said):
        index.add(["one", "two"], ids=ids, metadata=metadata)
    assert len(index) == 60


def test_numbers_of_numpy_are_metadata(index: Index) -> None:
    index.add(["one"], ["n"], [{"year": np.int64(2020), "share": np.float32(0.5), "list": [np.int8(1)]}])
    (hit,) = index.search("one", k=1, where={"year": 2020})
    assert hit.metadata == {"year": 2020, "share": 0.5, "list": [1]}


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda index: index.search("coffee", k=0), "k must be a whole number of at least 1"),
        (lambda index: index.search(7), "list of strings"),
        (lambda index: index.search(["coffee", 7]), "text 1 is of type int"),
        (lambda index: index.search("coffee", rerank=-1), "rerank"),
        (lambda index: index.search("coffee", scan="bits"), "scan must be a Scan"),
        (lambda index: index.search_vectors(np.ones((1, 129))), "at most 128 dims"),
        (lambda index: index.search_vectors("coffee"), "array of numbers"),
        (lambda index: index.search_vectors([[np.nan] * 128]), "nan or inf"),
        (lambda index: index.search_vectors([[1e300] * 128]), "nan or inf"),
        (lambda index: index.delete("t1"), "ids must be a list"),
        (lambda index: index.delete([1]), "every id is a string"),
        (lambda index: index.add("one text"), "wrap it"),
        (lambda index: index.search("coffee", scan=Scan("graph")), "this index has no graph"),
    ],
)
def test_wrong_calls_are_one_sentence(call, said, index: Index) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(DataError, match=said):
        call(index)


def test_a_deeper_query_than_the_model_is_refused(index: Index) -> None:
    with pytest.raises(CutError, match="deeper"):
        index.search("coffee", layers=4)


def test_the_disk_keeps_no_file_that_is_not_used(index: Index) -> None:
    left = index.folder / "vectors" / f"{'0' * 16}{writer.SUFFIX}"
    left.write_bytes(b"by a process that was killed before it could list the file")
    assert index.verify() == {}
    index.add(["one"])
    assert not left.exists()
