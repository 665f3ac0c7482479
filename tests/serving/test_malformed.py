"""No request, however wrong, makes the server fail: no 500, no traceback, nothing kept."""

from __future__ import annotations

import http.client
import json
import os
import socket
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from malformed import Malformed, malformed
from servers import RunningServer, memory_mb, read_answer, running
from soak_results import told

pytestmark = pytest.mark.posix
COUNT = int(os.environ.get("DEMITASSE_MALFORMED", "10000"))


def sent(server: RunningServer, request: Malformed) -> str:
    """The status that came back, or `closed`."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        try:
            connection.sendall(request.data)
            if not request.whole:
                connection.shutdown(socket.SHUT_WR)
            answer = read_answer(connection)
        except (ConnectionError, http.client.HTTPException):
            return "closed"
    if answer.status >= 400 and answer.body and answer.headers.get("content-type") == "application/json":
        assert set(json.loads(answer.body)["error"]) >= {"message", "type", "param", "code"}
    return str(answer.status)


def check(count: int, seed: int) -> Counter[tuple[str, str]]:
    """Send so many to a server of its own; gives how many of each kind ended how."""
    with running("--client-seconds", 2, "--log-requests") as server, ThreadPoolExecutor(8) as pool:
        warm = list(malformed(200, seed=-1))
        list(pool.map(lambda request: sent(server, request), warm))
        before = memory_mb(server.process.pid)
        requests = list(malformed(count, seed))
        ended = list(pool.map(lambda request: sent(server, request), requests))
        counts = Counter((request.kind, status) for request, status in zip(requests, ended, strict=True))
        for (kind, status), _ in counts.items():
            # 504: a timeout_ms of next to nothing
            assert status in {"200", "400", "404", "405", "413", "415", "431", "504", "closed"}, (kind, status)
            assert status != "closed" or kind == "http", (kind, status)
        assert server.embed(input="a").status == 200
        assert "Traceback" not in server.said
        assert "error:" not in server.said
        assert " 500 " not in server.said
        grown = memory_mb(server.process.pid) - before
        assert grown < 30 + count / 1000, f"{grown:.0f} MB more after {count} requests"
        assert server.stop() == 0
        statuses = Counter[str]()
        for (_, status), number in sorted(counts.items()):
            statuses[status] += number
        told("malformed requests", requests=count, **statuses, **{"MB more": round(grown, 1)})
    return counts


def test_a_few_hundred_malformed_requests() -> None:
    counts = check(400, seed=0)
    assert sum(number for (_, status), number in counts.items() if status == "400") > 100


@pytest.mark.soak
def test_thousands_of_malformed_requests() -> None:
    check(COUNT, seed=1)
