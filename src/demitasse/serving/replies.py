"""What is sent back: a status, headers and a body, or a stream of events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

Header = tuple[str, str]
JSON: Header = ("content-type", "application/json")


@dataclass(frozen=True)
class Reply:
    """A whole answer."""

    body: bytes
    status: int = 200
    headers: Sequence[Header] = (JSON,)


@dataclass(frozen=True)
class Stream:
    """An answer that goes on until one of the two ends it."""

    parts: AsyncIterator[bytes]
    headers: Sequence[Header]


def json_reply(plain: dict[str, Any], headers: Sequence[Header] = (), before: bytes = b"") -> Reply:
    """Plain values as a reply; `before` are fields that are JSON already, each with a comma after it."""
    body = json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # The name of a folder need not be valid Unicode; JSON reads the escape back.
    return Reply(b"{" + before + body[1:].encode("utf-8", "backslashreplace"), headers=(JSON, *headers))
