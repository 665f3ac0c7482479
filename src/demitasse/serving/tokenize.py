"""`POST /tokenize`: the tokens of texts, as the model reads them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import lru_cache
from itertools import takewhile
from typing import Any

from demitasse.encoding.reader import Reader
from demitasse.serving.asking import KIND_FIELD
from demitasse.serving.calls import Call, Endpoint
from demitasse.serving.limits import ServerLimits
from demitasse.serving.offer import Offer
from demitasse.serving.replies import Reply, json_reply
from demitasse.serving.request_fields import Field, Flag, Schema, Texts


@lru_cache(maxsize=8)
def fields(offer: Offer, limits: ServerLimits) -> Mapping[str, Field]:
    """The fields of a request."""
    return {
        "input": Texts("A text or a list of texts.", limits.max_inputs, required=True),
        "input_type": KIND_FIELD,
        "add_special_tokens": Flag(
            "Whether ids are all that the model reads; false gives the text's own, as /v1/embeddings takes them. "
            "Default: true."
        ),
    }


async def tokenize(call: Call) -> Reply:
    """Answer a request."""
    given = await call.read(fields)
    model, texts = call.service.model, given["input"]
    call.service.limits.check_tokens(texts, "input")
    reader, kind = model.encoder.reader, given.get("input_type")
    read = await asyncio.to_thread(_read, reader, texts, kind)
    if not given.get("add_special_tokens", True):
        before, after = await asyncio.to_thread(_around, reader, kind)
        for entry in read:
            entry["ids"] = entry["ids"][before : len(entry["ids"]) - after]
    plain = {"object": "list", "model": model.offer.name, "max_tokens": model.offer.max_tokens, "data": read}
    return json_reply(plain)


def _read(reader: Reader, texts: list[str], kind: str | None) -> list[dict[str, Any]]:
    packed = reader.read(texts, reader.prefix(kind))
    return [
        {
            "object": "tokens",
            "index": index,
            "ids": packed.ids_of(index),
            "count": int(packed.whole_lengths[index]),
            "truncated": bool(packed.truncated[index]),
        }
        for index in range(len(packed))
    ]


def _around(reader: Reader, kind: str | None) -> tuple[int, int]:
    """How many tokens stand before and after those of a text."""
    empty, word = (reader.read([text]).ids_of(0) for text in ("", "a"))
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(empty, word, strict=False)))
    return reader.prompt_tokens(reader.prefix(kind)) or shared, len(empty) - shared


_REPLY: Schema = {
    "type": "object",
    "properties": {
        "model": {"type": "string"},
        "max_tokens": {"type": "integer", "description": "Tokens of a text that the model reads."},
        "data": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "index": {"type": "integer"},
                    "ids": {
                        "type": "array",
                        "items": {"type": "integer"},
                        "description": "What the model reads: with prompt and special tokens, truncated.",
                    },
                    "count": {"type": "integer", "description": "Tokens before it was truncated."},
                    "truncated": {"type": "boolean"},
                },
                "required": ["index", "ids", "count", "truncated"],
            },
        },
    },
    "required": ["model", "max_tokens", "data"],
}
TOKENIZE = Endpoint(
    "POST", ("/tokenize",), "Show the tokens of texts.", tokenize, _REPLY, fields, {"input": ["a ristretto"]}
)
