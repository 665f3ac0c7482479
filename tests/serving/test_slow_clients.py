"""What a client cannot do: send too much, hold the server with a slow request, or leave its answer lying there."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator

import pytest
from servers import LONG, RunningServer, memory_mb, raw_request, read_answer, running, waiting

pytestmark = pytest.mark.posix
READ_SECONDS = 1.5


@pytest.fixture(scope="module", params=["httptools", "h11"])
def strict(request: pytest.FixtureRequest) -> Iterator[RunningServer]:
    """A server with small limits, with either parser of HTTP that uvicorn has."""
    setup = "" if request.param == "httptools" else "import sys; sys.modules['httptools'] = None"
    limits = {
        "max-inputs": 8,
        "max-tokens": 1000,
        "max-bytes": 20_000,
        "client-seconds": READ_SECONDS,
        "max-connections": 50,
    }
    with running(*(f"--{name}={value}" for name, value in limits.items()), setup=setup) as started:
        yield started


def test_too_many_inputs_tokens_or_bytes_are_413(strict: RunningServer) -> None:
    assert strict.embed(input=["a"] * 8).status == 200
    for fields, words in (
        ({"input": ["a"] * 9}, "9 inputs and this server takes 8"),
        ({"input": [[2054]] * 9}, "9 inputs"),
        ({"input": ["word " * 900]}, "1,125 tokens and this server takes 1,000"),
        ({"input": [2054] * 1001}, "1,001 tokens"),
        ({"input": "x" * 20_000}, "more than 20,000 bytes"),
    ):
        answer = strict.embed(**fields)
        assert answer.status == 413, fields
        assert words in answer.error["message"]
        assert answer.error["code"] == "request_too_large"
    assert strict.ask("POST", "/v1/rerank", {"query": "a", "documents": ["a"] * 9}).status == 413
    assert strict.ask("POST", "/v1/similarity", {"first": "a", "second": ["a"] * 5}).status == 413
    assert strict.ask("POST", "/tokenize", {"input": "word " * 900}).status == 413


def test_a_refused_request_leaves_the_connection_usable(strict: RunningServer) -> None:
    with strict.connection() as connection:
        for body, status in ((b"x" * 60_000, 413), (b"{}", 400), (b'{"input": "a"}', 200)):
            connection.request("POST", "/v1/embeddings", body, {"content-type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            assert answer.status == status


def test_a_body_without_a_length_is_measured_while_it_is_read(strict: RunningServer) -> None:
    chunk = b"1000\r\n" + b"x" * 4096 + b"\r\n"
    with strict.socket() as connection:
        connection.sendall(raw_request(b"", "transfer-encoding: chunked") + 6 * chunk + b"0\r\n\r\n")
        assert read_answer(connection).status == 413
    with strict.socket() as connection:  # without an end
        connection.sendall(raw_request(b"", "transfer-encoding: chunked"))
        sent = 0
        try:
            for _ in range(10_000):
                connection.sendall(chunk)
                sent += len(chunk)
        except OSError:
            pass
        assert sent < 8_000_000  # it was cut off, after some that the sockets hold
    small = b'{"input": "a"}'
    with strict.socket() as connection:
        body = b"".join(b"%x\r\n%b\r\n" % (1, small[at : at + 1]) for at in range(len(small)))
        connection.sendall(raw_request(b"", "transfer-encoding: chunked") + body + b"0\r\n\r\n")
        assert read_answer(connection).status == 200


def test_a_client_that_asks_first_is_refused_before_it_sends(strict: RunningServer) -> None:
    with strict.socket() as connection:
        connection.sendall(raw_request(b"", "content-length: 90000", "expect: 100-continue"))
        answer = read_answer(connection)
    assert answer.status == 413
    assert answer.headers["connection"] == "close"


@pytest.mark.parametrize(
    "start",
    [
        b"",
        b"POST /v1/embeddings",
        b"POST /v1/embeddings HTTP/1.1\r\nhost: here\r\nx-slow: ",
        raw_request(b"", "content-length: 100") + b"{",
        raw_request(b"", "transfer-encoding: chunked") + b"1\r\n{\r\n",
    ],
    ids=["nothing", "half a line", "half a header", "half a body", "half of the chunks"],
)
def test_slow_requests_are_closed(strict: RunningServer, start: bytes) -> None:
    """A byte now and then does not keep a connection open, and others are served meanwhile."""
    with strict.socket() as connection:
        connection.sendall(start)
        connection.settimeout(0.2)
        began = time.monotonic()
        answer, closed = b"", False
        while not closed and time.monotonic() < began + LONG:
            assert strict.ask("GET", "/health").status == 200
            try:
                if start:
                    connection.sendall(b"1\r\n \r\n" if b"chunked" in start else b"a")
                received = connection.recv(65536)
                answer, closed = answer + received, not received
            except TimeoutError:
                pass
            except OSError:
                closed = True
        assert closed
        assert time.monotonic() - began >= READ_SECONDS * 0.9
        assert not answer or b" 408 " in answer.partition(b"\r\n")[0]
        assert b"body did not arrive" in answer or b"no request came" in answer or not answer


def test_headers_without_end_are_cut_off(strict: RunningServer) -> None:
    with strict.socket() as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nhost: here\r\n")
        try:
            for number in range(1000):
                connection.sendall(b"x-%d: %b\r\n" % (number, b"y" * 1000))
            status = read_answer(connection).status
        except OSError:  # it was closed before all was sent
            status = 431
        assert status in (400, 431)
    assert strict.ask("GET", "/health").status == 200


def test_an_unread_answer_is_dropped() -> None:
    """Clients that ask for megabytes and take none of them hold neither memory nor a connection."""
    with running("--client-seconds", READ_SECONDS) as server:
        body = json.dumps({"input": ["a"] * 2048, "layers": 0}).encode()
        request = raw_request(body, "x-request-id: unread")
        quiet = [socket.socket() for _ in range(5)]
        try:
            for connection in quiet:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                connection.connect(("127.0.0.1", server.port))
                connection.sendall(request)
            for _ in waiting():
                if server.ask("GET", "/load").json["connections"] == 1:  # of this very request
                    break
            else:
                raise AssertionError("the connections are still there")
        finally:
            for connection in quiet:
                connection.close()
        assert server.embed(input="a").status == 200


def test_too_many_connections_are_turned_away(strict: RunningServer) -> None:
    held = []
    try:
        statuses = set()
        for _ in range(60):
            connection = socket.create_connection(("127.0.0.1", strict.port), timeout=LONG)
            held.append(connection)
        for connection in held[-5:]:
            connection.sendall(b"GET /health HTTP/1.1\r\nhost: here\r\n\r\n")
            statuses.add(read_answer(connection).status)
        assert statuses == {503}
    finally:
        for connection in held:
            connection.close()
    for _ in waiting():
        if strict.ask("GET", "/health").status == 200:
            return
    raise AssertionError("it does not answer any more")


def test_a_client_that_leaves_frees_its_place() -> None:
    """Large requests whose clients are gone are not computed to their end."""
    body = raw_request(json.dumps({"input": ["a longer text, of some twenty words or so, " * 4] * 1000}).encode())
    with running("--max-tokens", 10_000_000) as server:
        for _ in range(10):
            with server.socket() as connection:
                connection.sendall(body)
                time.sleep(0.05)
        for _ in waiting():
            load = server.ask("GET", "/load").json
            if load["queue_tokens"] == 0 and load["connections"] == 1:
                break
        else:
            raise AssertionError(f"still waiting: {load}")
        families = server.ask("GET", "/metrics").body.decode()
        assert 'demitasse_requests_total{path="/v1/embeddings",status="499"} ' in families
        assert "demitasse_inputs_total" not in families  # none was finished


def test_pipelined_requests_are_answered_in_order(strict: RunningServer) -> None:
    with strict.socket() as connection:
        requests = [raw_request(json.dumps({"input": "a", "dimensions": dims}).encode()) for dims in (1, 2, 3, 4)]
        connection.sendall(b"".join(requests))
        received = b""
        while received.count(b'"usage"') < 4:
            received += connection.recv(65536)
    cuts = [line for line in received.split(b"\r\n") if line.startswith(b"x-demitasse-cut")]
    assert cuts == [b"x-demitasse-cut: 6x%d" % dims for dims in (1, 2, 3, 4)]


def test_memory_stays_flat_under_refused_requests(strict: RunningServer) -> None:
    def refuse(count: int) -> None:
        with strict.connection() as connection:
            for number in range(count):
                connection.request(
                    "POST",
                    "/v1/embeddings",
                    json.dumps({"input": "a", f"name{number}": number, "layers": 99}),
                    {"content-type": "application/json", "x-request-id": f"r{number}"},
                )
                assert connection.getresponse().read()

    refuse(300)
    before = memory_mb(strict.process.pid)
    refuse(3000)
    assert memory_mb(strict.process.pid) - before < 10
