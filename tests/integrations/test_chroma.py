"""Inside the real chromadb, which keeps its collections in a folder here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import chromadb
import pytest
from chromadb.api import ClientAPI
from chromadb.config import Settings
from python_programs import run_program
from spaces import TEXTS, copied, other_encoder, replaced

from demitasse.encoding.encoder import Encoder
from demitasse.encoding.loading import load
from demitasse.errors import DataError
from demitasse.integrations.chroma import DemitasseEmbeddingFunction, collection

IDS = ["a", "b", "c", "d"]
pytestmark = pytest.mark.adapters


@pytest.fixture
def client(tmp_path: Path) -> Iterator[ClientAPI]:
    opened = chromadb.PersistentClient(tmp_path / "chroma", settings=Settings(anonymized_telemetry=False))
    yield opened
    opened.close()


def nearest(documents: Encoder, queries: Encoder, query: str) -> tuple[list[str], list[float]]:
    scores = documents.encode_document(TEXTS) @ queries.encode_query([query])[0]
    order = (-scores).argsort()[:2]
    return [IDS[place] for place in order], [float(1 - scores[place]) for place in order]


def found(docs: chromadb.Collection, query: str) -> tuple[list[str], list[float]]:
    result = docs.query(query_texts=[query], n_results=2)
    assert result["distances"] is not None
    return result["ids"][0], [pytest.approx(distance, abs=1e-4) for distance in result["distances"][0]]


def test_a_collection_finds_what_exact_search_finds(encoder: Encoder, client: ClientAPI) -> None:
    docs = collection(client, "docs", encoder.cut("3x16"))
    docs.add(ids=IDS, documents=TEXTS)
    assert found(docs, "tobel") == nearest(encoder.cut("3x16"), encoder.cut("3x16"), "tobel")
    shallow = collection(client, "docs", encoder.cut(layers=1))
    assert found(shallow, "tobel") == nearest(encoder.cut("3x16"), encoder.cut("1x16"), "tobel")
    with pytest.raises(DataError, match="holds documents at 3x16, and this encoder, at 1x16, is deep"):
        shallow.add(ids=["e"], documents=["kan"])


def test_the_function_alone_has_layers_for_queries(encoder: Encoder, client: ClientAPI) -> None:
    function = DemitasseEmbeddingFunction(encoder, cut="3x16", query_layers=1)
    docs = client.create_collection("docs", embedding_function=function)  # type: ignore[arg-type]
    docs.add(ids=IDS, documents=TEXTS)
    assert found(docs, "tobel") == nearest(encoder.cut("3x16"), encoder.cut("1x16"), "tobel")
    assert docs.configuration_json["hnsw"]["space"] == "cosine"


def test_chroma_keeps_the_function_in_its_configuration(client: ClientAPI, tmp_path: Path) -> None:
    docs = collection(client, "docs", load().cut("2x64"))
    docs.add(ids=IDS, documents=["a ristretto", "a lungo", "the weather", "a bicycle"])
    expected = found(docs, "a small cup")
    assert found(collection(client, "docs"), "a small cup") == expected
    rebuilt = client.get_collection("docs")  # Chroma itself builds the function
    assert found(rebuilt, "a small cup") == expected
    client.close()
    program = (
        "import chromadb, json\n"
        "from demitasse.integrations.chroma import collection\n"
        "settings = chromadb.Settings(anonymized_telemetry=False)\n"
        f"docs = collection(chromadb.PersistentClient({str(tmp_path / 'chroma')!r}, settings), 'docs')\n"
        "print(json.dumps(docs.query(query_texts=['a small cup'], n_results=2)['ids'][0]))"
    )
    assert json.loads(run_program(program).stdout) == expected[0]


def test_another_model_and_fewer_dims_are_refused(
    encoder: Encoder, model_folder: Callable[..., Path], client: ClientAPI
) -> None:
    collection(client, "docs", encoder.cut("3x16")).add(ids=IDS, documents=TEXTS)
    other = other_encoder(model_folder)
    again = r"or index its texts again: collection\(client, 'another name', encoder\).add\(ids=ids, documents=texts\)$"
    with pytest.raises(DataError, match=rf"^collection 'docs' holds vectors of .* is another model .*{again}"):
        collection(client, "docs", other)
    with pytest.raises(DataError, match=rf"^collection 'docs' holds vectors of 16 dims, .* gives 8; .*{again}"):
        collection(client, "docs", encoder.cut(dims=8))


def test_chroma_refuses_the_function_of_another_model_itself(
    encoder: Encoder, model_folder: Callable[..., Path], client: ClientAPI
) -> None:
    collection(client, "docs", encoder)
    function = DemitasseEmbeddingFunction(other_encoder(model_folder))
    for opening in (client.get_collection, client.get_or_create_collection):
        with pytest.raises(ValueError, match="Embedding function conflict: new: demitasse-"):
            opening("docs", embedding_function=function)
    shallow = DemitasseEmbeddingFunction(encoder.cut(layers=1))
    client.get_collection("docs", embedding_function=shallow)  # type: ignore[arg-type]


def test_a_replaced_model_is_refused(
    model_folder: Callable[..., Path], client: ClientAPI, tmp_path: Path, encoder: Encoder
) -> None:
    folder = copied(model_folder("BERT"), tmp_path / "model")
    function = DemitasseEmbeddingFunction(folder)
    client.create_collection("docs", embedding_function=function)  # type: ignore[arg-type]
    replaced(folder, model_folder("BERT", modes="cls"))
    with pytest.raises(DataError, match="is not the model that it was"):
        collection(client, "docs")
    with pytest.raises(ValueError, match="is not the model that it was"):
        client.get_collection("docs").query(query_texts=["kan"])
    assert collection(client, "docs", encoder).count() == 0


def test_a_configuration_cannot_be_changed_to_another_model(
    encoder: Encoder, model_folder: Callable[..., Path]
) -> None:
    old = DemitasseEmbeddingFunction(encoder, cut="3x16")
    for new, said in (
        (DemitasseEmbeddingFunction(other_encoder(model_folder), cut="3x16"), "is another model"),
        (DemitasseEmbeddingFunction(encoder, cut="2x16"), "holds vectors at 3x16, not 2x16; keep that cut, or index"),
    ):
        with pytest.raises(DataError, match=said):
            new.validate_config_update(old.get_config(), new.get_config())
    same = DemitasseEmbeddingFunction(encoder, cut="3x16", query_layers=1)
    same.validate_config_update(old.get_config(), same.get_config())


def test_collections_of_others_are_refused(encoder: Encoder, client: ClientAPI) -> None:
    client.create_collection("theirs", embedding_function=None)
    with pytest.raises(DataError, match="collection 'theirs' does not say which model made its vectors"):
        collection(client, "theirs", encoder)
    with pytest.raises(DataError, match="there is no collection 'new' yet; give the encoder"):
        collection(client, "new")


def test_without_chroma_the_message_says_what_to_install() -> None:
    program = "try: import demitasse.integrations.chroma\nexcept ImportError as problem: print(problem)"
    said = run_program(program, without=["chromadb"]).stdout
    assert said == "demitasse.integrations.chroma needs chromadb; pip install 'demitasse[chroma]'\n"
