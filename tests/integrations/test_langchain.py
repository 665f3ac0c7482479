"""Inside the real langchain_core."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.indexing import InMemoryRecordManager, index
from langchain_core.load import dumpd, dumps, load, loads
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore
from python_programs import run_program
from spaces import TEXTS, copied, other_encoder, replaced

from demitasse.encoding.encoder import Encoder
from demitasse.errors import DataError, FolderError
from demitasse.integrations.langchain import DemitasseEmbeddings, DemitasseRetriever, DemitasseVectorStore
from demitasse.search.index import Index

OURS: dict[str, Any] = {
    "allowed_objects": [DemitasseEmbeddings, DemitasseRetriever],
    "valid_namespaces": ["demitasse"],
}
# `load` and `loads`, which every release of langchain_core calls beta.
pytestmark = pytest.mark.filterwarnings("ignore:The function `loads?` is in beta")
YEARS = [{"year": 2019, "lang": "en"}, {"year": 2021, "lang": "en"}, {"year": 2022, "lang": "de"}, {"year": 2023}]


def store(encoder: Encoder, folder: Path, **options: Any) -> DemitasseVectorStore:
    embeddings = DemitasseEmbeddings(encoder, **options)
    return DemitasseVectorStore.from_texts(TEXTS, embeddings, YEARS, ids=["a", "b", "c", "d"], folder=folder)


def test_embeddings_are_those_of_the_encoder(encoder: Encoder) -> None:
    embeddings = DemitasseEmbeddings(encoder, cut="3x16", query_layers=1)
    documents = encoder.cut("3x16").encode_document(TEXTS).tolist()
    query = encoder.cut("1x16").encode_query(TEXTS[:1])[0].tolist()
    assert embeddings.embed_documents(TEXTS) == documents
    assert embeddings.embed_query(TEXTS[0]) == query
    assert asyncio.run(embeddings.aembed_documents(TEXTS)) == documents
    assert asyncio.run(embeddings.aembed_query(TEXTS[0])) == query
    assert embeddings.embed_documents([]) == []


def test_embeddings_work_in_a_store_of_langchains(encoder: Encoder) -> None:
    inside = InMemoryVectorStore.from_texts(TEXTS, DemitasseEmbeddings(encoder))
    expected = np.argmax(encoder.encode_document(TEXTS) @ encoder.encode_query(["tobel"])[0])
    assert inside.similarity_search("tobel", k=1)[0].page_content == TEXTS[expected]


def test_embeddings_are_written_and_read_by_langchain(encoder: Encoder) -> None:
    embeddings = DemitasseEmbeddings(encoder, cut="3x16", query_layers=1)
    again = loads(dumps(embeddings), **OURS)
    assert isinstance(again, DemitasseEmbeddings)
    assert again.embed_query("kan") == embeddings.embed_query("kan")
    assert again.embed_documents(TEXTS) == embeddings.embed_documents(TEXTS)


def test_written_embeddings_refuse_a_replaced_model(model_folder: Callable[..., Path], tmp_path: Path) -> None:
    folder = copied(model_folder("BERT"), tmp_path / "model")
    written = dumpd(DemitasseEmbeddings(folder))
    replaced(folder, model_folder("BERT", modes="cls"))
    with pytest.raises(DataError, match="is not the model that it was"):
        load(written, **OURS)


def test_a_misspelt_option_is_refused(encoder: Encoder) -> None:
    with pytest.raises(TypeError, match="layers"):
        DemitasseEmbeddings(encoder, layers=3)  # type: ignore[call-arg]


def test_a_store_finds_what_the_index_finds(encoder: Encoder, tmp_path: Path) -> None:
    made = store(encoder, tmp_path / "index", query_layers=1)
    hits = Index.open(tmp_path / "index", encoder).search("tobel", k=3, layers=1)
    found = made.similarity_search_with_score("tobel", k=3)
    assert [(document.id, score) for document, score in found] == [(hit.id, hit.score) for hit in hits]
    assert [document.metadata for document, _ in found] == [hit.metadata for hit in hits]
    assert [one.id for one in asyncio.run(made.asimilarity_search("tobel", k=3))] == [hit.id for hit in hits]
    by_vector = made.similarity_search_by_vector(encoder.cut(layers=1).encode_query(["tobel"])[0].tolist(), k=3)
    assert [document.id for document in by_vector] == [hit.id for hit in hits]


def test_a_store_can_be_filtered_added_to_and_deleted_from(encoder: Encoder, tmp_path: Path) -> None:
    made = store(encoder, tmp_path / "index")
    assert {one.id for one in made.similarity_search("kan", k=9, filter={"lang": "en", "year": {"gte": 2020}})} == {"b"}
    (new,) = made.add_documents([Document(id="e", page_content="sen", metadata={"lang": "fr"})])
    assert new == "e"
    assert made.similarity_search("sen", k=1, filter={"lang": "fr"})[0].page_content == "sen"
    assert made.add_texts(["kax"], ids=["e"]) == ["e"]
    assert [one.page_content for one in made.get_by_ids(["e", "nobody", "a"])] == ["kax", TEXTS[0]]
    assert made.delete(["e"])
    assert made.get_by_ids(["e"]) == []
    with pytest.raises(DataError, match="delete needs the ids"):
        made.delete()


def test_a_new_store_is_empty_until_texts_come(encoder: Encoder, tmp_path: Path) -> None:
    made = DemitasseVectorStore(tmp_path / "index", DemitasseEmbeddings(encoder))
    assert (made.similarity_search("kan"), made.get_by_ids(["a"]), made.add_texts([])) == ([], [], [])
    assert made.max_marginal_relevance_search("kan") == []
    assert made.delete(["a"])
    (given,) = made.add_texts(["kan"])
    assert made.similarity_search("kan")[0].id == given


def test_langchains_own_indexing_keeps_a_store_up_to_date(encoder: Encoder, tmp_path: Path) -> None:
    made = DemitasseVectorStore(tmp_path / "index", DemitasseEmbeddings(encoder))
    records = InMemoryRecordManager("index")
    records.create_schema()

    def synchronised(texts: list[str]) -> dict[str, int]:
        documents = [Document(page_content=one, metadata={"source": "s"}) for one in texts]
        options = {"cleanup": "full", "source_id_key": "source", "key_encoder": "sha256"}
        return dict(index(documents, records, made, **options))  # type: ignore[arg-type]

    assert synchronised(TEXTS)["num_added"] == len(TEXTS)
    assert synchronised(TEXTS[:2]) == {"num_added": 0, "num_updated": 0, "num_skipped": 2, "num_deleted": 2}
    assert len(made.similarity_search("kan", k=9)) == 2


def test_diverse_and_relevant_searches(encoder: Encoder, tmp_path: Path) -> None:
    made = store(encoder, tmp_path / "index")
    made.add_texts([TEXTS[0]], ids=["twin"])
    nearest = [one.page_content for one in made.similarity_search(TEXTS[0], k=2)]
    assert nearest == [TEXTS[0]] * 2
    diverse = [one.page_content for one in made.max_marginal_relevance_search(TEXTS[0], k=2, lambda_mult=0.1)]
    assert len(set(diverse)) == 2
    for _, score in made.similarity_search_with_relevance_scores(TEXTS[0], k=5):
        assert 0 <= score <= 1
    retriever = made.as_retriever(search_type="similarity_score_threshold", search_kwargs={"score_threshold": 0.0})
    assert len(retriever.invoke("kan")) == 4


def test_an_existing_index_is_opened_with_its_own_model(encoder: Encoder, tmp_path: Path) -> None:
    Index.build(encoder.cut("2x16"), TEXTS, tmp_path / "index")
    made = DemitasseVectorStore(tmp_path / "index")
    assert len(made.embeddings.embed_query("kan")) == 16
    assert made.similarity_search(TEXTS[2], k=1)


def test_the_store_refuses_vectors_of_another_model(
    encoder: Encoder, model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    store(encoder, tmp_path / "index")
    other = DemitasseEmbeddings(other_encoder(model_folder))
    with pytest.raises(FolderError, match=r"is another model .*or index the texts again: demitasse index rebuild"):
        DemitasseVectorStore(tmp_path / "index", other)
    with pytest.raises(DataError, match="embedding must be DemitasseEmbeddings, not 'minilm'"):
        DemitasseVectorStore(tmp_path / "index", "minilm")  # type: ignore[arg-type]


def test_a_retriever_in_a_chain_is_written_and_read(encoder: Encoder, tmp_path: Path) -> None:
    made = Index.build(encoder, TEXTS, tmp_path / "index", metadata=YEARS)
    retriever = DemitasseRetriever(made, k=2, where={"lang": "en"}, layers=1)
    chain = retriever | RunnableLambda(lambda found: [one.page_content for one in found])
    expected = [hit.text for hit in made.search("kan", 2, where={"lang": "en"}, layers=1)]
    assert chain.invoke("kan") == expected
    assert asyncio.run(chain.ainvoke("kan")) == expected
    assert chain.batch(["kan"] * 16) == [expected] * 16  # in threads
    assert retriever.invoke("kan", k=1)[0].page_content == expected[0]
    again = load(json.loads(json.dumps(dumpd(retriever))), **OURS)
    assert [one.page_content for one in again.invoke("kan")] == expected


def test_without_langchain_the_message_says_what_to_install() -> None:
    program = "try: import demitasse.integrations.langchain\nexcept ImportError as problem: print(problem)"
    said = run_program(program, without=["langchain_core"]).stdout
    assert said == "demitasse.integrations.langchain needs langchain-core; pip install 'demitasse[langchain]'\n"
