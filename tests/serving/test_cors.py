"""Web pages: none may use the server unless it was said, and those that may can send a key."""

from __future__ import annotations

import pytest
from servers import RunningServer, running

ASKED = {
    "origin": "https://example.org",
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization,content-type,x-stainless-lang",
}


def test_no_page_may_use_it_by_default(server: RunningServer) -> None:
    answer = server.ask("POST", "/v1/embeddings", {"input": "a"}, {"origin": "https://example.org"})
    assert not [name for name in answer.headers if name.startswith("access-control")]
    assert server.ask("OPTIONS", "/v1/embeddings", None, ASKED).status == 405


@pytest.mark.parametrize("allowed", ["https://example.org", "*"])
def test_pages_of_an_origin_may_send_a_key(allowed: str) -> None:
    with running("--cors", allowed, DEMITASSE_API_KEY="key-of-a-page") as server:
        asked = server.ask("OPTIONS", "/v1/embeddings", None, ASKED)
        assert asked.status == 200
        assert asked.headers["access-control-allow-origin"] == allowed
        assert "authorization" in asked.headers["access-control-allow-headers"]
        assert "POST" in asked.headers["access-control-allow-methods"]
        page = {"origin": "https://example.org"}
        answer = server.ask("POST", "/v1/embeddings", {"input": "a"}, {**page, "authorization": "Bearer key-of-a-page"})
        assert answer.status == 200
        assert answer.headers["access-control-allow-origin"] == allowed
        assert "x-demitasse-cut" in answer.headers["access-control-expose-headers"]
        refused = server.ask("POST", "/v1/embeddings", {"input": "a"}, page)
        assert refused.status == 401  # and the page can read why
        assert refused.headers["access-control-allow-origin"] == allowed
        other = server.ask("POST", "/v1/embeddings", {"input": "a"}, {"origin": "https://elsewhere.example"})
        assert other.headers.get("access-control-allow-origin") == ("*" if allowed == "*" else None)
