"""Inside the real qdrant_client, which keeps its collections in a folder here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from python_programs import run_program
from qdrant_client import AsyncQdrantClient, QdrantClient, models
from spaces import TEXTS, other_encoder

from demitasse.encoding.encoder import Encoder
from demitasse.errors import DataError
from demitasse.integrations.qdrant import AsyncQdrantCollection, QdrantCollection
from demitasse.search.index import Index

IDS = ["a", "b", "c", "8f14e45f-ceea-467f-a8d2-0a1b5d0c9e11"]
METADATA: list[dict[str, Any]] = [
    {"year": 2019, "lang": "en", "price": 1.5},
    {"year": 2021, "lang": ["en", "fr"], "new": True},
    {"year": 2022, "lang": "de"},
    {"a field.with signs": "x"},
]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[QdrantClient]:
    opened = QdrantClient(path=str(tmp_path / "qdrant"))
    yield opened
    opened.close()


def test_it_finds_what_exact_search_finds(encoder: Encoder, client: QdrantClient) -> None:
    collection = QdrantCollection.open(client, "docs", encoder.cut("3x16"))
    assert collection.add(TEXTS, IDS, METADATA) == IDS
    assert len(collection) == 4
    scores = encoder.cut("3x16").encode_document(TEXTS) @ encoder.cut("3x16").encode_query(["tobel"])[0]
    hits = collection.search("tobel", k=3)
    assert [hit.id for hit in hits] == [IDS[place] for place in (-scores).argsort()[:3]]
    assert [hit.score for hit in hits] == pytest.approx(sorted(scores, reverse=True)[:3], abs=1e-5)
    assert {hit.text: hit.metadata for hit in hits}.items() <= dict(zip(TEXTS, METADATA, strict=True)).items()


def test_texts_are_replaced_and_deleted(encoder: Encoder, client: QdrantClient) -> None:
    collection = QdrantCollection.open(client, "docs", encoder)
    collection.add(TEXTS, IDS)
    collection.add(["kax"], ["a"])
    assert len(collection) == 4
    assert {hit.id: hit.text for hit in collection.search("kax")}["a"] == "kax"
    collection.delete(["a", IDS[3], "nobody"])
    assert {hit.id for hit in collection.search("kan")} == {"b", "c"}
    (given,) = collection.add(["sen"])
    assert {hit.id: hit.text for hit in collection.search("sen")}[given] == "sen"


@pytest.mark.parametrize(
    "where",
    [
        {"lang": "en"},
        {"lang": ["de", "fr"]},
        {"year": {"gte": 2020, "lt": 2022}},
        {"lang": "en", "year": 2019},
        {"or": [{"lang": "de"}, {"price": 1.5}]},
        {"and": [{"lang": "en"}, {"new": True}]},
        {"nothing": "x"},
        {"a field.with signs": "x"},
    ],
    ids=str,
)
def test_where_means_what_it_means_to_an_index(
    encoder: Encoder, client: QdrantClient, tmp_path: Path, where: dict[str, Any]
) -> None:
    collection = QdrantCollection.open(client, "docs", encoder)
    collection.add(TEXTS, IDS, METADATA)
    index = Index.build(encoder, TEXTS, tmp_path / "index", ids=IDS, metadata=METADATA)
    wanted = {hit.id for hit in index.search("kan", where=where)}
    assert {hit.id for hit in collection.search("kan", where=where)} == wanted


def test_filters_of_qdrant_work_too(encoder: Encoder, client: QdrantClient) -> None:
    collection = QdrantCollection.open(client, "docs", encoder)
    collection.add(TEXTS, IDS, METADATA)
    german = models.FieldCondition(key="metadata.lang", match=models.MatchValue(value="de"))
    assert [hit.id for hit in collection.search("kan", where=models.Filter(must=[german]))] == ["c"]
    with pytest.raises(DataError, match="Qdrant orders numbers only"):
        collection.search("kan", where={"lang": {"gte": "de"}})


def test_what_qdrant_would_take_for_something_else_is_refused(encoder: Encoder, client: QdrantClient) -> None:
    collection = QdrantCollection.open(client, "docs", encoder)
    collection.add(TEXTS, IDS, METADATA)
    with pytest.raises(DataError, match="an empty list for 'lang'"):  # not every text
        collection.search("kan", where={"lang": []})
    with pytest.raises(DataError, match="Qdrant has no name for it; rename it"):
        collection.search("kan", where={'say "a"': 1})
    with pytest.raises(DataError, match="ids must be a list of strings, not 'abc'"):  # not the texts a, b and c
        collection.delete("abc")
    collection.delete(["\ud800"])
    collection.delete([])
    assert len(collection) == 4


def test_it_is_opened_again_with_its_model_or_any_depth(encoder: Encoder, tmp_path: Path) -> None:
    first = QdrantClient(path=str(tmp_path / "qdrant"))
    QdrantCollection.open(first, "docs", encoder.cut("3x16")).add(TEXTS, IDS)
    first.close()
    second = QdrantClient(path=str(tmp_path / "qdrant"))
    own = QdrantCollection.open(second, "docs")
    assert own.search(TEXTS[2], k=1)[0].id == "c"
    shallow = QdrantCollection.open(second, "docs", encoder.cut(layers=1))
    scores = encoder.cut("3x16").encode_document(TEXTS) @ encoder.cut("1x16").encode_query(["tobel"])[0]
    assert shallow.search("tobel", k=1)[0].score == pytest.approx(scores.max(), abs=1e-5)
    with pytest.raises(DataError, match="deep enough for queries only"):
        shallow.add(["kan"])
    second.close()


def test_another_model_and_fewer_dims_are_refused(
    encoder: Encoder, model_folder: Callable[..., Path], client: QdrantClient
) -> None:
    QdrantCollection.open(client, "docs", encoder.cut("3x16"))
    again = r"or index its texts again: QdrantCollection.open\(client, 'another name', encoder\).add\(texts\)$"
    with pytest.raises(DataError, match=rf"^collection 'docs' holds vectors of .* is another model .*{again}"):
        QdrantCollection.open(client, "docs", other_encoder(model_folder))
    with pytest.raises(DataError, match=rf"^collection 'docs' holds vectors of 16 dims, .* gives 8; .*{again}"):
        QdrantCollection.open(client, "docs", encoder.cut(dims=8))


def test_a_collection_of_someone_else_is_refused(encoder: Encoder, client: QdrantClient) -> None:
    client.create_collection("theirs", vectors_config=models.VectorParams(size=32, distance=models.Distance.COSINE))
    with pytest.raises(DataError, match="collection 'theirs' does not say which model made its vectors"):
        QdrantCollection.open(client, "theirs", encoder)
    with pytest.raises(DataError, match="there is no collection 'new' yet; give the encoder"):
        QdrantCollection.open(client, "new")


def test_the_asynchronous_client_does_the_same(
    encoder: Encoder, model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    async def use() -> None:
        client = AsyncQdrantClient(path=str(tmp_path / "qdrant"))
        collection = await AsyncQdrantCollection.open(client, "docs", encoder)
        assert await collection.add(TEXTS, IDS, METADATA) == IDS
        await collection.delete(["a"])
        assert await collection.count() == 3
        assert [hit.id for hit in await collection.search(TEXTS[2], k=1)] == ["c"]
        assert [hit.id for hit in await collection.search("kan", where={"lang": "de"})] == ["c"]
        again = await AsyncQdrantCollection.open(client, "docs")
        assert await again.count() == 3
        with pytest.raises(DataError, match="is another model"):
            await AsyncQdrantCollection.open(client, "docs", other_encoder(model_folder))
        await client.close()

    asyncio.run(use())


def test_without_qdrant_the_message_says_what_to_install() -> None:
    program = "try: import demitasse.integrations.qdrant\nexcept ImportError as problem: print(problem)"
    said = run_program(program, without=["qdrant_client"]).stdout
    assert said == "demitasse.integrations.qdrant needs qdrant-client; pip install 'demitasse[qdrant]'\n"
