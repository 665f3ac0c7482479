"""How the page at `/` is served: one file, tied to its own script, asked for again and sent only if it changed."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode

from servers import RunningServer, running

from demitasse.host.bundled import corpus


def test_only_its_own_style_and_script_may_run(server: RunningServer) -> None:
    page = server.ask("GET", "/")
    policy = dict(part.split(" ", 1) for part in page.headers["content-security-policy"].split("; ") if part.count(" "))
    text = page.body.decode()
    for tag, directive in (("style", "style-src"), ("script", "script-src")):
        (inline,) = re.findall(f"<{tag}>(.*?)</{tag}>", text, flags=re.DOTALL)
        digest = b64encode(hashlib.sha256(inline.encode()).digest()).decode()
        assert policy[directive] == f"'sha256-{digest}'"
    assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == policy["frame-ancestors"] == "'none'"
    assert policy["connect-src"] == "'self'"
    assert "{{" not in text
    assert not re.findall(r"\son\w+=|\sstyle=", text.split("<script")[0])  # the policy would drop them


def test_it_is_kept_and_asked_for_again(server: RunningServer) -> None:
    page = server.ask("GET", "/")
    assert page.headers["cache-control"] == "no-cache"
    tag = page.headers["etag"]
    for known in (tag, f"W/{tag}", f'"another", {tag}'):
        again = server.ask("GET", "/", headers={"if-none-match": known})
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
        assert "content-length" not in again.headers
    assert server.ask("GET", "/", headers={"if-none-match": '"another"'}).body == page.body


def test_it_has_the_sentences_and_the_limits_and_needs_no_key() -> None:
    with running(
        "--max-inputs", 9, "--max-tokens", 5000, "--max-bytes", 70_000, DEMITASSE_API_KEY="a-long-key"
    ) as server:
        page = server.ask("GET", "/").body.decode()
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page)
    assert json.loads(data) == {
        "sample": corpus(),
        "limits": {"inputs": 9, "characters": 20_000, "bytes": 70_000},
    }
    assert "a-long-key" not in page
