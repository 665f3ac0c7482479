"""The other endpoints: models, rerank, similarity, tokenize, health, metrics, load, the document and its page."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families
from servers import RunningServer, running

import demitasse as dt

DOCUMENTS = ["a ristretto is a short espresso", "the bank of the river", "a glass of water", "coffee beans"]


def test_models_have_their_measured_cuts(server: RunningServer, model: dt.Encoder) -> None:
    listed = server.ask("GET", "/v1/models").json["data"]
    whole = listed[0]
    assert (whole["id"], whole["layers"], whole["dimensions"]) == ("demitasse", 6, 384)
    assert (whole["max_tokens"], whole["fingerprint"]) == (256, model.fingerprint)
    assert whole["cuts"] == model.record["cuts"]
    cuts = {entry["id"]: entry for entry in listed[2:]}
    assert [*cuts] == [f"demitasse:{entry['cut']}" for entry in model.record["cuts"]]
    assert cuts["demitasse:3x384"]["held_out"] == model.record["cuts"][3]["held_out"]
    assert server.ask("GET", "/v1/models/demitasse").json == whole
    assert server.ask("GET", "/v1/models/demitasse:2x384").json == cuts["demitasse:2x384"]
    assert server.ask("GET", "/v1/models/demitasse:9x9").status == 400
    assert server.ask("GET", "/v1/models/other/model").status == 404


@pytest.mark.parametrize("path", ["/v1/rerank", "/v2/rerank", "/rerank"])
def test_rerank_has_the_shapes_of_cohere_and_jina(server: RunningServer, model: dt.Encoder, path: str) -> None:
    query = "a small strong coffee"
    cosines = model.similarity(model.encode_query([query]), model.encode_document(DOCUMENTS))[0]
    best = np.argsort(-cosines)
    answer = server.ask("POST", path, {"model": "demitasse", "query": query, "documents": DOCUMENTS})
    results = answer.json["results"]
    assert [result["index"] for result in results] == best.tolist()
    np.testing.assert_allclose([result["relevance_score"] for result in results], cosines[best], atol=1e-5)
    assert all("document" not in result for result in results)
    tokens = int(model.count_tokens([query, *DOCUMENTS]).sum())
    assert answer.json["usage"]["total_tokens"] == answer.json["meta"]["tokens"]["input_tokens"] == tokens
    assert answer.json["id"] == answer.headers["x-request-id"]
    assert answer.headers["x-demitasse-cut"] == answer.headers["x-demitasse-query-cut"] == "6x384"
    objects = [{"text": text, "title": "not read"} for text in DOCUMENTS]
    two = {"query": query, "documents": objects, "top_n": 2, "return_documents": True}
    few = server.ask("POST", path, two).json["results"]
    assert [result["document"]["text"] for result in few] == [DOCUMENTS[index] for index in best[:2]]


def test_rerank_at_a_cut(server: RunningServer, model: dt.Encoder) -> None:
    small = model.cut("2x64")
    cosines = small.similarity(small.encode(["coffee"]), small.encode(DOCUMENTS))[0]
    answer = server.ask(
        "POST",
        "/v1/rerank",
        {"query": "coffee", "documents": DOCUMENTS, "layers": 2, "dimensions": 64, "min_layers": 1},
    )
    scores = {result["index"]: result["relevance_score"] for result in answer.json["results"]}
    np.testing.assert_allclose([scores[index] for index in range(4)], cosines, atol=1e-5)
    assert answer.headers["x-demitasse-cut"] == "2x64"
    assert answer.json["model"] == "demitasse:2x64"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"documents": ["a"]}, "query"),
        ({"query": "a"}, "documents"),
        ({"query": "a", "documents": []}, "documents"),
        ({"query": ["a"], "documents": ["a"]}, "query"),
        ({"query": "a", "documents": [{"body": "a"}]}, "documents"),
        ({"query": "a", "documents": [["a"]]}, "documents"),
        ({"query": "a", "documents": ["a"], "top_n": 0}, "top_n"),
        ({"query": "a", "documents": ["a"], "top_k": 1}, "top_n"),
        ({"query": "long " * 300, "documents": ["a"], "truncate": False}, "query"),
        ({"query": "a", "documents": ["a", "long " * 300], "truncate": False}, "documents"),
    ],
)
def test_a_bad_rerank_names_its_field(server: RunningServer, body: dict[str, object], param: str) -> None:
    answer = server.ask("POST", "/v1/rerank", body)
    assert answer.status == 400
    assert answer.error["param"] == param


def test_similarity_is_that_of_the_encoder(server: RunningServer, model: dt.Encoder) -> None:
    answer = server.ask("POST", "/v1/similarity", {"first": "coffee", "second": DOCUMENTS, "layers": 3})
    small = model.cut(layers=3)
    np.testing.assert_allclose(
        answer.json["similarity"], small.similarity(small.encode(["coffee"]), small.encode(DOCUMENTS)), atol=1e-5
    )
    assert answer.headers["x-demitasse-cut"] == "3x384"
    assert server.ask("POST", "/v1/similarity", {"first": "a"}).error["param"] == "second"


def test_tokenize_shows_what_the_model_reads(server: RunningServer, model: dt.Encoder) -> None:
    texts = ["a ristretto", "espresso " * 400]
    answer = server.ask("POST", "/tokenize", {"input": texts}).json
    packed = model.reader.read(texts)
    assert [entry["ids"] for entry in answer["data"]] == [packed.ids_of(0), packed.ids_of(1)]
    assert [entry["count"] for entry in answer["data"]] == model.count_tokens(texts).tolist()
    assert [entry["truncated"] for entry in answer["data"]] == [False, True]
    assert answer["max_tokens"] == 256
    plain = server.ask("POST", "/tokenize", {"input": texts[0], "add_special_tokens": False}).json
    assert plain["data"][0]["ids"] == packed.ids_of(0)[1:-1]


def test_health_and_ready(server: RunningServer) -> None:
    assert server.ask("GET", "/health").json == {"status": "ok", "stage": "ready"}
    assert server.ask("GET", "/ready").json == {"status": "ready", "model": "demitasse"}
    with server.connection() as connection:
        connection.request("HEAD", "/health")
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, b"")


def test_metrics_count_what_happened() -> None:
    with running() as server:
        for layers, texts in ((3, ["a", "b"]), (3, ["c"]), (6, ["long " * 400])):
            assert server.embed(input=texts, layers=layers).status == 200
        assert server.embed(input=[]).status == 400
        families = {family.name: family for family in text_string_to_metric_families(scraped(server))}
        counted = {
            (sample.name, *sample.labels.values()): sample.value
            for family in families.values()
            for sample in family.samples
        }
    assert counted["demitasse_requests_total", "/v1/embeddings", "200"] == 3
    assert counted["demitasse_requests_total", "/v1/embeddings", "400"] == 1
    assert counted["demitasse_inputs_total", "3"] == 3
    assert counted["demitasse_inputs_total", "6"] == 1
    assert counted["demitasse_tokens_total",] == 3 * 3 + 256
    assert counted["demitasse_truncated_total",] == 1
    assert counted["demitasse_embed_seconds_count", "3"] == 2
    assert counted["demitasse_embed_seconds_bucket", "3", "+Inf"] == 2
    assert counted["demitasse_ready",] == 1
    assert counted["demitasse_queue_tokens",] == 0
    assert families["demitasse_request_seconds"].type == "histogram"


def scraped(server: RunningServer) -> str:
    answer = server.ask("GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return answer.body.decode()


def test_load_once_and_as_a_stream(server: RunningServer) -> None:
    server.embed(input="a", layers=2)
    once = server.ask("GET", "/load").json
    assert once["inputs_by_layers"]["2"] >= 1
    assert once["ready"] == 1
    with server.connection() as connection:
        connection.request("GET", "/load", headers={"accept": "text/event-stream"})
        answer = connection.getresponse()
        assert answer.getheader("content-type") == "text/event-stream"
        events = [answer.readline() for _ in range(4)]
    assert [event[:6] for event in events] == [b"data: ", b"\n", b"data: ", b"\n"]
    assert json.loads(events[2][6:]).keys() == once.keys()


def test_no_more_streams_than_a_few(server: RunningServer) -> None:
    watching = []
    try:
        statuses = []
        for _ in range(20):
            connection = server.connection().__enter__()
            watching.append(connection)
            connection.request("GET", "/load", headers={"accept": "text/event-stream"})
            answer = connection.getresponse()
            statuses.append(answer.status)
            answer.readline()
        assert 503 in statuses
        assert statuses.count(200) <= 16
    finally:
        for connection in watching:
            connection.close()


def test_the_document_describes_every_path(server: RunningServer) -> None:
    document = server.ask("GET", "/openapi.json").json
    assert document["openapi"] == "3.1.0"
    assert {"/v1/embeddings", "/v1/rerank", "/v1/similarity", "/tokenize", "/v1/models", "/metrics"} <= {
        *document["paths"]
    }
    body = document["paths"]["/v1/embeddings"]["post"]["requestBody"]["content"]["application/json"]
    fields = body["schema"]["properties"]
    assert {"input", "model", "dimensions", "layers", "input_type", "output_dtype", "truncate", "timeout_ms"} <= {
        *fields
    }
    assert fields["dimensions"]["anyOf"][0]["maximum"] == 384
    assert body["schema"]["required"] == ["input"]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if "requestBody" in operation:
                example = operation["requestBody"]["content"]["application/json"]["example"]
                assert server.ask(method.upper(), path, example).status == 200, path


def test_the_pages_ask_nobody_else(server: RunningServer) -> None:
    found: list[str] = []

    class Links(HTMLParser):
        def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
            found.extend([value or "" for name, value in attributes if name in ("src", "href")])

    for path in ("/docs", "/"):
        page = server.ask("GET", path)
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert "content-security-policy" in page.headers
        Links().feed(page.body.decode())
        assert not [link for link in found if "//" in link]
    assert "POST /v1/embeddings" in server.ask("GET", "/docs").body.decode()


def test_a_wrong_path_or_method_says_so(server: RunningServer) -> None:
    lost = server.ask("GET", "/v2/embeddings")
    assert (lost.status, lost.error["type"]) == (404, "invalid_request_error")
    wrong = server.ask("GET", "/v1/embeddings")
    assert (wrong.status, wrong.headers["allow"]) == (405, "POST")
    assert "POST" in wrong.error["message"]
    assert server.ask("DELETE", "/v1/models").status == 405
    assert server.ask("POST", "/nowhere", b"x" * 100_000).status == 404
