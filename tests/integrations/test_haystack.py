"""Inside the real haystack."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from haystack import Document, Pipeline
from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
from haystack.components.writers import DocumentWriter
from haystack.document_stores.in_memory import InMemoryDocumentStore
from python_programs import run_program
from spaces import TEXTS, copied, other_encoder, replaced

from demitasse.encoding.encoder import Encoder
from demitasse.errors import DataError, FolderError
from demitasse.integrations.haystack import (
    DemitasseDocumentEmbedder,
    DemitasseRetriever,
    DemitasseTextEmbedder,
    where_of,
)
from demitasse.search.index import Index

OURS = ["demitasse.*"]
DOCUMENTS = [Document(content=one, meta={"title": f"ru {number}"}) for number, one in enumerate(TEXTS)]


def test_embedders_give_the_vectors_of_the_encoder(encoder: Encoder) -> None:
    query = DemitasseTextEmbedder(encoder, cut="1x16").run(TEXTS[0])["embedding"]
    assert query == encoder.cut("1x16").encode_query(TEXTS[:1])[0].tolist()
    embedder = DemitasseDocumentEmbedder(encoder, cut="3x16")
    embedded = embedder.run(DOCUMENTS)["documents"]
    vectors = encoder.cut("3x16").encode_document(TEXTS).tolist()
    assert [one.embedding for one in embedded] == vectors
    assert [one.id for one in embedded] == [one.id for one in DOCUMENTS]
    assert all(one.embedding is None for one in DOCUMENTS)
    assert asyncio.run(embedder.run_async(DOCUMENTS))["documents"] == embedded
    assert asyncio.run(DemitasseTextEmbedder(encoder, cut="1x16").run_async(TEXTS[0]))["embedding"] == query
    assert embedder.run([]) == {"documents": []}


def test_fields_of_meta_can_be_embedded(encoder: Encoder) -> None:
    embedder = DemitasseDocumentEmbedder(encoder, meta_fields_to_embed=["title", "absent"], embedding_separator=" ")
    (first, *_) = embedder.run(DOCUMENTS)["documents"]
    assert first.embedding == encoder.encode_document([f"ru 0 {TEXTS[0]}"])[0].tolist()


def pipelines(encoder: Encoder, store: InMemoryDocumentStore) -> tuple[Pipeline, Pipeline]:
    indexing, asking = Pipeline(), Pipeline()
    indexing.add_component("embedder", DemitasseDocumentEmbedder(encoder, cut="3x16"))
    indexing.add_component("writer", DocumentWriter(store))
    indexing.connect("embedder", "writer")
    asking.add_component("embedder", DemitasseTextEmbedder(encoder, cut="1x16"))
    asking.add_component("retriever", InMemoryEmbeddingRetriever(store, top_k=2))
    asking.connect("embedder.embedding", "retriever.query_embedding")
    return indexing, asking


def test_pipelines_are_written_and_read_by_haystack(encoder: Encoder) -> None:
    store = InMemoryDocumentStore(embedding_similarity_function="cosine")
    indexing, asking = pipelines(encoder, store)
    Pipeline.loads(indexing.dumps(), allowed_modules=OURS).run({"embedder": {"documents": DOCUMENTS}})
    assert store.count_documents() == len(TEXTS)  # a store in memory has an id, under which both pipelines find it
    scores = encoder.cut("3x16").encode_document(TEXTS) @ encoder.cut("1x16").encode_query([TEXTS[1]])[0]
    for one in (asking, Pipeline.loads(asking.dumps(), allowed_modules=OURS)):
        found = asyncio.run(one.run_async({"embedder": {"text": TEXTS[1]}}))["retriever"]["documents"]
        assert [document.content for document in found] == [TEXTS[place] for place in (-scores).argsort()[:2]]


def test_a_written_pipeline_refuses_a_replaced_model(model_folder: Callable[..., Path], tmp_path: Path) -> None:
    folder = copied(model_folder("BERT"), tmp_path / "model")
    pipeline = Pipeline()
    pipeline.add_component("embedder", DemitasseTextEmbedder(folder))
    written = pipeline.dumps()
    replaced(folder, model_folder("BERT", modes="cls"))
    with pytest.raises(DataError, match="is not the model that it was"):
        Pipeline.loads(written, allowed_modules=OURS).warm_up()


def test_the_retriever_finds_what_the_index_finds(encoder: Encoder, tmp_path: Path) -> None:
    years = [{"year": year} for year in (2019, 2020, 2021, 2022)]
    index = Index.build(encoder, TEXTS, tmp_path / "index", metadata=years)
    filters = {"field": "meta.year", "operator": ">=", "value": 2020}
    pipeline = Pipeline()
    pipeline.add_component("retriever", DemitasseRetriever(tmp_path / "index", top_k=2, filters=filters, layers=1))
    again = Pipeline.loads(pipeline.dumps(), allowed_modules=OURS)
    hits = index.search("tobel", 2, where={"year": {"gte": 2020}}, layers=1)
    for one in (pipeline, again):
        found = one.run({"retriever": {"query": "tobel"}})["retriever"]["documents"]
        assert [(document.id, document.score) for document in found] == [(hit.id, hit.score) for hit in hits]
        assert [(document.content, document.meta) for document in found] == [(hit.text, hit.metadata) for hit in hits]
    retriever = DemitasseRetriever(index)
    assert len(retriever.run("tobel")["documents"]) == 4
    assert len(asyncio.run(retriever.run_async("tobel", top_k=1))["documents"]) == 1


def test_the_retriever_refuses_another_model(
    encoder: Encoder, model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    Index.build(encoder, TEXTS, tmp_path / "index")
    with pytest.raises(FolderError, match=r"is another model .*or index the texts again: demitasse index rebuild"):
        DemitasseRetriever(Index.open(tmp_path / "index", other_encoder(model_folder)))


@pytest.mark.parametrize(
    ("operator", "wanted"),
    [("==", "en"), ("in", ["en"]), (">", {"gt": "en"}), ("<", {"lt": "en"}), ("<=", {"lte": "en"})],
)
def test_filters_of_haystack_are_those_of_the_index(operator: str, wanted: Any) -> None:
    value = wanted if operator == "in" else "en"
    one = {"field": "meta.lang", "operator": operator, "value": value}
    assert where_of(one) == {"lang": wanted}
    assert where_of({"operator": "OR", "conditions": [one, one]}) == {"or": [{"lang": wanted}] * 2}


@pytest.mark.parametrize(
    "filters",
    [
        {"field": "meta.lang", "operator": "!=", "value": "en"},
        {"operator": "NOT", "conditions": []},
        {"lang": "en"},
    ],
)
def test_a_filter_that_the_index_cannot_answer_is_one_sentence(filters: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="is not a filter that an index can answer; use ==, in, >"):
        where_of(filters)


def test_wrong_inputs_are_one_sentence(encoder: Encoder) -> None:
    with pytest.raises(DataError, match="text must be a string, not a list; a DemitasseDocumentEmbedder takes"):
        DemitasseTextEmbedder(encoder).run(DOCUMENTS)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="documents must be a list of Documents, not 'kan'; a DemitasseTextEmbedder"):
        DemitasseDocumentEmbedder(encoder).run("kan")  # type: ignore[arg-type]


def test_without_haystack_the_message_says_what_to_install() -> None:
    program = "try: import demitasse.integrations.haystack\nexcept ImportError as problem: print(problem)"
    said = run_program(program, without=["haystack"]).stdout
    assert said == "demitasse.integrations.haystack needs haystack-ai; pip install 'demitasse[haystack]'\n"
