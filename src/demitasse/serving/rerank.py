"""`POST /v1/rerank`: documents in the order in which they answer a query, in the shapes of Cohere and Jina."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from demitasse.serving.asking import answer_headers, ask, cut_fields
from demitasse.serving.calls import Call, Endpoint
from demitasse.serving.embeddings import USAGE_SCHEMA
from demitasse.serving.limits import ServerLimits
from demitasse.serving.offer import Offer
from demitasse.serving.replies import Reply, json_reply
from demitasse.serving.request_fields import Field, Flag, Schema, Text, Texts, Whole


@lru_cache(maxsize=8)
def fields(offer: Offer, limits: ServerLimits) -> Mapping[str, Field]:
    """The fields of a request."""
    return {
        "query": Text("What to look for.", required=True),
        "documents": Texts(
            "Texts to put in order; each a string, or an object with a field text.",
            limits.max_inputs,
            objects=True,
            required=True,
        ),
        **cut_fields(offer, limits),
        "top_n": Whole("How many of the best to return; default: all.", 1, 1 << 31),
        "return_documents": Flag("Whether to return the texts, too; default: false."),
    }


async def rerank(call: Call) -> Reply:
    """Answer a request."""
    given = await call.read(fields)
    documents: list[str] = given["documents"]
    try:
        async with asyncio.TaskGroup() as group:  # where one is refused, the other is dropped
            asked = group.create_task(ask(call, given, [given["query"]], "query", "query"))
            whole = {name: value for name, value in given.items() if name != "min_layers"}
            held = group.create_task(ask(call, whole, documents, "documents", "document"))
    except ExceptionGroup as refused:
        raise refused.exceptions[0] from None
    query, answer = asked.result(), held.result()
    scores = answer.vectors @ query.vectors[0]
    best = np.argsort(-scores, kind="stable")[: given.get("top_n", len(documents))].tolist()
    texts = [{"document": {"text": text}} if given.get("return_documents") else {} for text in documents]
    tokens = query.tokens + answer.tokens
    plain = {
        "id": call.request_id,
        "object": "list",
        "model": call.service.model.offer.named(answer.cut),
        "results": [{"index": index, "relevance_score": float(scores[index]), **texts[index]} for index in best],
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        "meta": {"tokens": {"input_tokens": tokens}},
    }
    truncated = ("x-demitasse-truncated", str(query.truncated + answer.truncated))
    rest = [header for header in answer_headers(answer) if header[0] != truncated[0]]
    return json_reply(plain, [*rest, truncated, ("x-demitasse-query-cut", str(query.cut))])


_REPLY: Schema = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "model": {"type": "string"},
        "results": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "index": {"type": "integer", "description": "Place of the document in the request."},
                    "relevance_score": {"type": "number", "description": "Cosine of query and document."},
                    "document": {"type": "object", "properties": {"text": {"type": "string"}}},
                },
                "required": ["index", "relevance_score"],
            },
        },
        "usage": USAGE_SCHEMA,
    },
    "required": ["id", "model", "results", "usage"],
}
RERANK = Endpoint(
    "POST",
    ("/v1/rerank", "/v2/rerank", "/rerank"),
    "Put documents in the order in which they answer a query.",
    rerank,
    _REPLY,
    fields,
    {"query": "a small strong coffee", "documents": ["a ristretto", "a glass of water"], "top_n": 1},
)
