"""Requests that are wrong in every way that bytes, JSON and HTTP allow, made from right ones."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from servers import raw_request

RIGHT: list[tuple[str, dict[str, Any]]] = [
    ("/v1/embeddings", {"input": ["a ristretto", "a lungo"], "model": "demitasse:3x128", "encoding_format": "base64"}),
    ("/v1/embeddings", {"input": [[2054, 2003], [7987]], "dimensions": 64, "layers": 2, "input_type": "query"}),
    ("/v1/embeddings", {"input": "a", "output_dtype": "int8", "truncate": True, "timeout_ms": 20000, "min_layers": 1}),
    ("/v1/rerank", {"query": "coffee", "documents": ["a", {"text": "b"}], "top_n": 1, "return_documents": True}),
    ("/v1/similarity", {"first": "a", "second": ["b", "c"], "layers": 1}),
    ("/tokenize", {"input": ["a", "b"], "add_special_tokens": False}),
]
DEEP: Any = []
for _ in range(60):
    DEEP = [DEEP]
ODD_VALUES: list[Any] = [
    *(None, True, False, 0, -1, 1.5, 1e308, 2**63, 10**39),
    *("", "x", "0", "\ud83d", "\x00", "a" * 5000, "名" * 500, "3x128"),
    *([], {}, [[]], [None], [True], [{}], [[[1]]], [""], [[2054], "a"], [1.0], [-1], [2**40]),
    *(DEEP, {"text": 3}, {"": {}}),
]
ODD_NUMBERS = ["NaN", "Infinity", "-Infinity", "1e999", "9" * 5000, "-0", "1e-999", "01", "+1", "0x10", "1_000"]
ODD_TEXT = [
    *(b"\xff", b"\xc3(", b"\xed\xa0\x80", b"\x00", b"\\u12", b'\\"', b"\xef\xbb\xbf"),
    *(b"[" * 2000, b'{"a":' * 2000),
]
LINES = [
    *(b"\r\n", b"\x00" * 20, b"\x16\x03\x01\x02\x00\x01\x00", b"GET"),
    *(b"GET / HTTP/9.9\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\n", b"POST / HTTP/1.1\r\n: a\r\n\r\n"),
    *(b"GET /\xff\xfe HTTP/1.1\r\nhost: a\r\n\r\n", b"GET http://[ HTTP/1.1\r\nhost: a\r\n\r\n"),
    *(b"GET /v1/models/%00%ff%zz HTTP/1.1\r\nhost: a\r\n\r\n", b"BREW /pot HTTP/1.1\r\nhost: a\r\n\r\n"),
    b"GET /v1/models/" + b"a" * 9000 + b" HTTP/1.1\r\nhost: a\r\n\r\n",
    b"GET /health HTTP/1.1\r\nhost: a\r\nx: \x01\x02\r\n\r\n",
    b"POST /v1/embeddings HTTP/1.1\r\nhost: a\r\ncontent-length: -5\r\n\r\n",
    b"POST /v1/embeddings HTTP/1.1\r\nhost: a\r\ncontent-length: 99999999999999999999999\r\n\r\n",
    b"POST /v1/embeddings HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}",
    b"POST /v1/embeddings HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n{}",
    b"POST /v1/embeddings HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    b"POST /v1/embeddings HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 9\r\n\r\n",
    b"GET /v1/embeddings HTTP/1.1\r\nhost: a\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
]


class Malformed(NamedTuple):
    """What is sent; `whole` if HTTP has an end to it, so that an answer must come."""

    data: bytes
    whole: bool
    kind: str


def malformed(count: int, seed: int = 0) -> Iterator[Malformed]:
    """So many requests, most of them wrong."""
    draw = random.Random(seed)
    for _ in range(count):
        path, body = draw.choice(RIGHT)
        kind = draw.choices(["value", "name", "number", "bytes", "cut", "http"], [6, 2, 2, 4, 2, 2])[0]
        if kind == "http":
            yield Malformed(_framed(draw, path, body), whole=False, kind=kind)
        else:
            yield Malformed(raw_request(_wrong_body(draw, kind, body), path=path), whole=True, kind=kind)


def _wrong_body(draw: random.Random, kind: str, body: dict[str, Any]) -> bytes:
    body = dict(body)
    if kind in ("value", "name", "number"):
        name = draw.choice([*body])
        if kind == "value":
            body[name] = draw.choice(ODD_VALUES)
        elif kind == "name":
            body[draw.choice([name + "s", name[:-1], "", "\ud800", "a" * 3000, name.upper()])] = body.pop(name)
        else:
            body[name] = "@number"
        return json.dumps(body).replace('"@number"', draw.choice(ODD_NUMBERS)).encode()
    data = bytearray(json.dumps(body, ensure_ascii=False).encode())
    if kind == "cut":
        return bytes(data[: draw.randrange(len(data))])
    for _ in range(draw.randint(1, 4)):
        place = draw.randrange(len(data))
        if draw.random() < 0.5:
            data[place] = draw.randrange(256)
        else:
            data[place:place] = draw.choice(ODD_TEXT)
    return bytes(data)


def _framed(draw: random.Random, path: str, body: dict[str, Any]) -> bytes:
    if draw.random() < 0.5:
        return draw.choice(LINES)
    request = bytearray(raw_request(json.dumps(body).encode(), path=path))
    head = request.index(b"\r\n\r\n")
    for _ in range(draw.randint(1, 3)):
        request[draw.randrange(head)] = draw.randrange(256)
    return bytes(request)
