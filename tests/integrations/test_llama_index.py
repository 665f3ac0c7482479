"""Inside the real llama_index.core."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
from llama_index.core import Document, StorageContext, VectorStoreIndex, load_index_from_storage
from llama_index.core.llms.mock import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import QueryBundle
from python_programs import run_program
from spaces import TEXTS, copied, other_encoder, replaced

from demitasse.encoding.encoder import Encoder
from demitasse.errors import DataError, FolderError
from demitasse.integrations.llama_index import DemitasseEmbedding, DemitasseRetriever
from demitasse.search.index import Index

pytestmark = pytest.mark.adapters


def test_embeddings_are_those_of_the_encoder(encoder: Encoder) -> None:
    embedding = DemitasseEmbedding(encoder, cut="3x16", query_layers=1)
    documents = encoder.cut("3x16").encode_document(TEXTS).tolist()
    query = encoder.cut("1x16").encode_query(TEXTS[:1])[0].tolist()
    assert embedding.get_text_embedding_batch(TEXTS) == documents
    assert embedding.get_text_embedding(TEXTS[0]) == documents[0]
    assert embedding.get_query_embedding(TEXTS[0]) == query
    assert asyncio.run(embedding.aget_text_embedding_batch(TEXTS)) == documents
    assert asyncio.run(embedding.aget_text_embedding(TEXTS[0])) == documents[0]
    assert asyncio.run(embedding.aget_query_embedding(TEXTS[0])) == query
    assert embedding.model_name == f"{encoder.name} 3x16"


def test_embeddings_are_written_and_read_by_llama_index(encoder: Encoder) -> None:
    embedding = DemitasseEmbedding(encoder, cut="3x16", query_layers=1, num_workers=2)
    for again in (
        DemitasseEmbedding.from_json(embedding.to_json()),
        DemitasseEmbedding.from_dict(embedding.to_dict()),
        pickle.loads(pickle.dumps(embedding)),
    ):
        assert again.num_workers == 2
        assert again.get_query_embedding("kan") == embedding.get_query_embedding("kan")
        assert again.get_text_embedding("kan") == embedding.get_text_embedding("kan")


def test_written_embeddings_refuse_a_replaced_model(model_folder: Callable[..., Path], tmp_path: Path) -> None:
    folder = copied(model_folder("BERT"), tmp_path / "model")
    written = json.loads(DemitasseEmbedding(folder).to_json())
    replaced(folder, model_folder("BERT", modes="cls"))
    with pytest.raises(DataError, match="is not the model that it was"):
        DemitasseEmbedding.from_dict(written)


def test_a_misspelt_option_is_refused(encoder: Encoder) -> None:
    with pytest.raises(DataError, match="DemitasseEmbedding has no option 'layers'"):
        DemitasseEmbedding(encoder, layers=3)


def test_an_index_of_llama_index_is_saved_and_loaded(encoder: Encoder, tmp_path: Path) -> None:
    embedding = DemitasseEmbedding(encoder)
    made = VectorStoreIndex.from_documents([Document(text=one) for one in TEXTS], embed_model=embedding)
    made.storage_context.persist(str(tmp_path / "stored"))
    context = StorageContext.from_defaults(persist_dir=str(tmp_path / "stored"))
    again = load_index_from_storage(context, embed_model=embedding)
    scores = encoder.encode_document(TEXTS) @ encoder.encode_query(["tobel"])[0]
    for one in (made, again):
        found = one.as_retriever(similarity_top_k=2).retrieve("tobel")
        assert [node.node.get_content() for node in found] == [TEXTS[place] for place in (-scores).argsort()[:2]]
        assert found[0].score == pytest.approx(scores.max(), abs=1e-5)


def test_the_retriever_finds_what_the_index_finds(encoder: Encoder, tmp_path: Path) -> None:
    index = Index.build(encoder, TEXTS, tmp_path / "index", ids=list("abcd"), metadata=[{"n": n} for n in range(4)])
    retriever = DemitasseRetriever(tmp_path / "index", k=2, where={"n": {"gte": 1}}, layers=1)
    hits = index.search("tobel", 2, where={"n": {"gte": 1}}, layers=1)
    for found in (retriever.retrieve("tobel"), asyncio.run(retriever.aretrieve("tobel"))):
        assert [(node.node_id, node.score) for node in found] == [(hit.id, hit.score) for hit in hits]
        assert [(node.node.get_content(), node.metadata) for node in found] == [(h.text, h.metadata) for h in hits]
    vector = encoder.cut(layers=1).encode_query(["tobel"])[0].tolist()
    assert retriever.retrieve(QueryBundle("else", embedding=vector))[0].node_id == hits[0].id
    engine = RetrieverQueryEngine.from_args(DemitasseRetriever(index), llm=MockLLM())
    assert [node.node_id for node in engine.query("tobel").source_nodes] == [h.id for h in index.search("tobel", 4)]


def test_the_retriever_refuses_another_model(
    encoder: Encoder, model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    Index.build(encoder, TEXTS, tmp_path / "index")
    with pytest.raises(FolderError, match=r"is another model .*or index the texts again: demitasse index rebuild"):
        DemitasseRetriever(Index.open(tmp_path / "index", other_encoder(model_folder)))


def test_without_llama_index_the_message_says_what_to_install() -> None:
    program = "try: import demitasse.integrations.llama_index\nexcept ImportError as problem: print(problem)"
    said = run_program(program, without=["llama_index.core"]).stdout
    assert said == "demitasse.integrations.llama_index needs llama-index-core; pip install 'demitasse[llama-index]'\n"
