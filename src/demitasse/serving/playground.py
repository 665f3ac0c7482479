"""The page at `/`: where a person tries the model in a browser, with texts of their own or the sentences that ship.

It is one file without outside assets. Styles and script are allowed by their hashes, so that nothing else on the page
can run, whatever texts it is given; and it talks to this server alone.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from functools import lru_cache

from demitasse.host.bundled import PLAYGROUND as ASSETS
from demitasse.host.bundled import SHARED_PAGES, corpus
from demitasse.host.web_pages import as_script, filled, joined
from demitasse.serving.calls import Call, Endpoint
from demitasse.serving.limits import CHARACTERS_PER_TOKEN, ServerLimits
from demitasse.serving.replies import Header, Reply

_SCRIPTS = ("ranking.js", "server.js", "load.js", "results.js", "page.js")  # in the order they are joined


async def page(call: Call) -> Reply:
    """The page, which holds no secrets: what it asks for needs a key where the server has one."""
    reply = _page(call.service.limits)
    tag = dict(reply.headers)["etag"]
    known = call.headers.get(b"if-none-match", b"").decode("latin-1").split(",")
    # A proxy that compresses the page marks its tag as weak.
    if tag in (one.strip().removeprefix("W/") for one in known):
        return Reply(b"", 304, reply.headers)
    return reply


@lru_cache(maxsize=1)
def _page(limits: ServerLimits) -> Reply:
    style = joined([SHARED_PAGES / "base.css", ASSETS / "page.css"])
    script = joined([SHARED_PAGES / "elements.js", *(ASSETS / name for name in _SCRIPTS)])
    data = {
        "sample": corpus(),
        "limits": {
            "inputs": limits.max_inputs,
            "characters": limits.max_tokens * CHARACTERS_PER_TOKEN,
            "bytes": limits.max_bytes,
        },
    }
    parts = {"style": style, "script": script, "data": as_script(data)}
    body = filled(ASSETS / "page.html", parts).encode()
    return Reply(body, headers=(*_headers(style, script), ("etag", f'"{hashlib.sha256(body).hexdigest()[:32]}"')))


def _headers(style: str, script: str) -> tuple[Header, ...]:
    policy = (
        "default-src 'none'",
        f"style-src {_hash(style)}",
        f"script-src {_hash(script)}",
        "connect-src 'self'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
    return (
        ("content-type", "text/html; charset=utf-8"),
        ("content-security-policy", "; ".join(policy)),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-cache"),  # it is kept, but asked for again: the page must fit the server
    )


def _hash(inline: str) -> str:
    """What a policy calls an inline style or script: the hash of all between its tags, line ends included."""
    digest = hashlib.sha256(f"\n{inline}\n".encode()).digest()
    return f"'sha256-{b64encode(digest).decode()}'"


PLAYGROUND = (
    Endpoint("GET", ("/",), "A page to try the model on.", page, {"type": "string"}, kind="text/html", needs_key=False),
)
