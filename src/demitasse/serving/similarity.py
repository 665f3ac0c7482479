"""`POST /v1/similarity`: the cosine of each text with each other text."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from demitasse.encoding.similarity import similarity as cosines
from demitasse.serving.asking import KIND_FIELD, answer_headers, ask, cut_fields
from demitasse.serving.calls import Call, Endpoint
from demitasse.serving.embeddings import USAGE_SCHEMA
from demitasse.serving.limits import ServerLimits
from demitasse.serving.number_text import array_texts, listed
from demitasse.serving.offer import Offer
from demitasse.serving.replies import Reply, json_reply
from demitasse.serving.request_fields import Field, Schema, Texts


@lru_cache(maxsize=8)
def fields(offer: Offer, limits: ServerLimits) -> Mapping[str, Field]:
    """The fields of a request."""
    return {
        "first": Texts("A text or a list of texts, one row of the answer each.", limits.max_inputs // 2, required=True),
        "second": Texts("A text or a list of texts, one column each.", limits.max_inputs // 2, required=True),
        **cut_fields(offer, limits),
        "input_type": KIND_FIELD,
    }


async def similarity(call: Call) -> Reply:
    """Answer a request."""
    given = await call.read(fields)
    first, second = given["first"], given["second"]
    answer = await ask(call, given, [*first, *second], "first", given.get("input_type"))
    rows = await listed(array_texts(cosines(answer.vectors[: len(first)], answer.vectors[len(first) :]), "float32"))
    rest = {
        "model": call.service.model.offer.named(answer.cut),
        "usage": {"prompt_tokens": answer.tokens, "total_tokens": answer.tokens},
    }
    return json_reply(rest, answer_headers(answer), before=b'"object":"list","similarity":[%b],' % b",".join(rows))


_REPLY: Schema = {
    "type": "object",
    "properties": {
        "model": {"type": "string"},
        "similarity": {
            "type": "array",
            "items": {"type": "array", "items": {"type": "number"}},
            "description": "The cosines: a row for each text of first, a column for each of second.",
        },
        "usage": USAGE_SCHEMA,
    },
    "required": ["model", "similarity", "usage"],
}
SIMILARITY = Endpoint(
    "POST",
    ("/v1/similarity",),
    "Compare texts: the cosine of each of first with each of second.",
    similarity,
    _REPLY,
    fields,
    {"first": "a small strong coffee", "second": ["a ristretto", "a glass of water"]},
)
