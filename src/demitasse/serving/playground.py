"""The page at `/`: where a person tries the model in a browser."""

from __future__ import annotations

from demitasse.host.bundled import PLAYGROUND as PAGE
from demitasse.serving.calls import Call, Endpoint
from demitasse.serving.replies import Reply

_HEADERS = (
    ("content-type", "text/html; charset=utf-8"),
    # It asks this server alone, and nothing on it comes from elsewhere.
    ("content-security-policy", "default-src 'self' 'unsafe-inline'; frame-ancestors 'none'"),
)


async def page(call: Call) -> Reply:
    """The page, which holds no secrets: what it asks for needs a key where the server has one."""
    return Reply((PAGE / "page.html").read_bytes(), headers=_HEADERS)


PLAYGROUND = (
    Endpoint("GET", ("/",), "A page to try the model on.", page, {"type": "string"}, kind="text/html", needs_key=False),
)
