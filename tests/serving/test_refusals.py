"""Every refusal of the engine, and every mistake of ours, is a status and a sentence; nothing private is logged."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import openai
import pytest
from servers import RunningServer, raw_request, read_answer, running

KEY = "sk-a-key-of-ours-77"
FAILING = """
import demitasse.serving.engine as engine
from demitasse.errors import FolderError
from demitasse.serving import refusals
really = engine.Engine.embed
problems = {
    "full": refusals.QueueFull("7 requests are waiting", 2.4),
    "soon": refusals.QueueFull("7 requests are waiting", 0.05),
    "late": refusals.DeadlineMissed("no answer within 1 seconds; allow more time"),
    "stopping": refusals.ShuttingDown("the server is stopping; send the request to another"),
    "large": refusals.TooManyTokens(9000, 8000),
    "broken": FolderError("exit_3.onnx gives nan; copy or export the model again"),
    "my secret text": ValueError("cannot use 'my secret text'"),
    "memory": MemoryError("my secret text"),
}
async def embed(self, asked):
    if asked.texts[0] in problems:
        raise problems[asked.texts[0]]
    return await really(self, asked)
engine.Engine.embed = embed
"""


@pytest.fixture(scope="module")
def failing() -> Iterator[RunningServer]:
    """A server whose engine refuses some texts."""
    with running("--log-requests", setup=FAILING, DEMITASSE_API_KEY=KEY) as started:
        yield started


@pytest.mark.parametrize(
    ("text", "status", "code", "headers"),
    [
        ("full", 429, "rate_limit_exceeded", {"retry-after": "3", "retry-after-ms": "2400"}),
        ("soon", 429, "rate_limit_exceeded", {"retry-after": "1", "retry-after-ms": "50"}),
        ("late", 504, "deadline_exceeded", {"x-should-retry": "false"}),
        ("stopping", 503, "not_ready", {"retry-after": "1"}),
        ("large", 413, "request_too_large", {}),
        ("broken", 500, None, {}),
        ("my secret text", 500, None, {}),
        ("memory", 500, None, {}),
    ],
)
def test_each_has_its_status(
    failing: RunningServer, text: str, status: int, code: str | None, headers: dict[str, str]
) -> None:
    key = {"authorization": f"Bearer {KEY}"}
    answer = failing.ask("POST", "/v1/embeddings", {"input": text}, key)
    assert answer.status == status
    assert answer.error["code"] == code
    assert {name: answer.headers[name] for name in headers} == headers
    assert "secret" not in answer.error["message"]
    if status == 500:
        assert f"in request {answer.headers['x-request-id']}" in failing.said
    for private in ("secret", KEY, "Traceback"):
        assert private not in failing.said
    either = failing.ask("POST", "/v1/rerank", {"query": text, "documents": ["a"]}, key)
    assert either.status == status
    assert failing.ask("POST", "/v1/embeddings", {"input": "fine"}, key).status == 200


def test_a_broken_model_is_told_to_whoever_runs_the_server(failing: RunningServer) -> None:
    failing.ask("POST", "/v1/embeddings", {"input": "broken"}, {"authorization": f"Bearer {KEY}"})
    assert "exit_3.onnx gives nan; copy or export the model again" in failing.said


def test_the_client_waits_as_long_as_it_is_told_and_tries_again(failing: RunningServer) -> None:
    with (
        openai.OpenAI(base_url=f"{failing.url}/v1", api_key=KEY, max_retries=2) as client,
        pytest.raises(openai.RateLimitError) as refused,
    ):
        client.embeddings.create(model="demitasse", input="soon")
    assert refused.value.code == "rate_limit_exceeded"
    failing.wait_for("(?s)(POST /v1/embeddings 429.*){3}")  # lines are written after the answers


def test_lines_of_the_log_have_numbers_and_no_texts(failing: RunningServer) -> None:
    body = {"input": ["a private letter", "another"], "user": "who@example.org"}
    path = "/v1/embeddings?api_key=in-the-address"
    answer = failing.ask("POST", path, body, {"authorization": f"Bearer {KEY}"})
    assert answer.status == 200
    line = failing.wait_for(f".* id={answer.headers['x-request-id']}")[0]  # it is written after the answer
    assert line.startswith("POST /v1/embeddings 200 ms=")
    assert "cut=6x384 inputs=2 tokens=8 truncated=0" in line
    for private in ("letter", "example.org", "in-the-address", KEY):
        assert private not in failing.said
    failing.ask("GET", "/nowhere/private-path%0aforged%20line", None)
    assert "private-path" not in failing.said


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (None, 401),
        ("", 401),
        (KEY, 401),
        (f"Basic {KEY}", 401),
        (f"Bearer {KEY[:-1]}", 401),
        (f"Bearer {KEY}x", 401),
        ("Bearer ", 401),
        (f"Bearer {KEY}", 200),
        (f"bearer  {KEY} ", 200),
    ],
)
def test_keys(failing: RunningServer, header: str | None, status: int) -> None:
    headers = {} if header is None else {"authorization": header}
    for method, path, body in (
        ("POST", "/v1/embeddings", {"input": "a"}),
        ("POST", "/tokenize", {"input": "a"}),
        ("GET", "/v1/models", None),
        ("GET", "/metrics", None),
        ("GET", "/load", None),
    ):
        answer = failing.ask(method, path, body, headers)
        assert answer.status == status, path
        if status == 401:
            assert answer.error["code"] == "invalid_api_key"
            assert answer.headers["www-authenticate"] == "Bearer"
    for path in ("/health", "/ready", "/docs", "/openapi.json", "/"):
        assert failing.ask("GET", path, None, headers).status == 200, path


def test_a_body_is_not_kept_for_a_client_without_a_key(failing: RunningServer) -> None:
    answer = failing.ask("POST", "/v1/embeddings", b"x" * 1_000_000)
    assert answer.status == 401


def test_overload_is_429_and_passes() -> None:
    text = "word " * 240
    with running("--max-queue-tokens", 600, "--threads", 1) as server:
        connections = [socket.create_connection(("127.0.0.1", server.port), timeout=120) for _ in range(30)]
        for connection in connections:
            connection.sendall(raw_request(json.dumps({"input": text}).encode()))
        answers = []
        for connection in connections:
            with connection:
                answers.append(read_answer(connection))
        statuses = [answer.status for answer in answers]
        assert set(statuses) == {200, 429}
        for answer in answers:
            if answer.status == 429:
                assert int(answer.headers["retry-after"]) >= 1
                assert answer.error["type"] == "rate_limit_error"
        assert server.embed(input=text).status == 200
        assert server.ask("GET", "/load").json["refused_total"] == statuses.count(429)
        assert server.embed(input=[text] * 3).status == 413


def test_no_answer_in_the_servers_own_time_is_504() -> None:
    with running("--timeout-ms", 1) as server:
        answer = server.embed(input=["a longer text of some words " * 20] * 200)
        assert answer.status == 504
        assert "0.001 seconds" in answer.error["message"]


def test_a_busy_server_sheds_layers_of_queries_alone() -> None:
    """Queries that accept fewer layers get them when more waits than can be answered in time; documents never do."""
    with running("--shed", "--min-layers", 1, "--shed-ms", 20, "--threads", 1) as server:
        bodies = [
            {"input": ["some words of a text " * 10] * 8, "input_type": kind}
            for _ in range(20)
            for kind in ("query", "document")
        ]
        connections = [socket.create_connection(("127.0.0.1", server.port), timeout=120) for _ in bodies]
        for connection, body in zip(connections, bodies, strict=True):
            connection.sendall(raw_request(json.dumps(body).encode()))
        used: dict[str, set[str]] = {"query": set(), "document": set()}
        for connection, body in zip(connections, bodies, strict=True):
            with connection:
                answer = read_answer(connection)
            assert answer.status == 200
            used[str(body["input_type"])].add(answer.headers["x-demitasse-cut"])
            assert answer.json["model"] == f"demitasse:{answer.headers['x-demitasse-cut']}"
        assert used["document"] == {"6x384"}
        assert used["query"] & {"1x384", "2x384", "3x384", "4x384", "5x384"}
        assert "0x384" not in used["query"]
        load = server.ask("GET", "/load").json
        assert load["shed_requests_total"] > 0
        assert load["shed_layers_total"] >= load["shed_requests_total"]
