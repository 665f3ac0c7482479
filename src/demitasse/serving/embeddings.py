"""`POST /v1/embeddings`: OpenAI's request and reply, with a cut, a kind of text and a number format of your choice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, cast

from demitasse.encoding.text_checks import checked
from demitasse.encoding.vectors import STORED, store
from demitasse.serving.api_errors import bad_request
from demitasse.serving.asking import KIND_FIELD, answer_headers, ask, cut_fields
from demitasse.serving.calls import Call, Endpoint
from demitasse.serving.limits import ServerLimits
from demitasse.serving.number_text import array_texts, base64_texts, listed
from demitasse.serving.offer import ENCODINGS, Offer
from demitasse.serving.replies import Reply, json_reply
from demitasse.serving.request_fields import Choice, Field, Schema, check_count


@dataclass(frozen=True)
class Inputs(Field):
    """What to embed: a string, a list of strings, a list of token ids, or a list of such lists."""

    most: int
    offer: Offer

    def read(self, name: str, value: object) -> list[str] | list[list[int]]:
        """A list of texts, or a list of lists of token ids."""
        if isinstance(value, str):
            value = [value]
        if not isinstance(value, list) or not value:
            wanted = "a string, a list of strings, a list of token ids or a list of such lists, with at least one"
            raise self.refused(name, wanted, value)
        if set(map(type, value)) == {int}:
            value = [value]
        check_count(name, len(value), self.most)
        kind: type = list if isinstance(value[0], list) else str
        for index, one in enumerate(value):
            if not isinstance(one, kind):
                wanted = "a list of token ids, as the first is" if kind is list else "a string"
                raise self.refused(f"{name}[{index}]", wanted, one)
        if kind is str:
            return list(checked(cast(list[str], value)))
        self._check_ids(name, value)
        return value

    def _check_ids(self, name: str, texts: list[list[Any]]) -> None:
        if not set(map(type, chain.from_iterable(texts))) <= {int}:
            wrong = next(token for token in chain.from_iterable(texts) if type(token) is not int)
            raise self.refused(name, "token ids, which are whole numbers", wrong)
        largest, reserved = self.offer.largest_id, self.offer.reserved_ids
        for ids in filter(None, texts):
            if min(ids) < 0 or max(ids) > largest:
                wrong = next(token for token in ids if not 0 <= token <= largest)
                raise self.refused(name, f"token ids of this model's tokenizer, 0 to {largest}", wrong)
            if not reserved.keys().isdisjoint(ids):
                wrong = next(token for token in ids if token in reserved)
                raise bad_request(
                    f"{name} has the token id {wrong}, {reserved[wrong]}, which no text has; send the text itself, or "
                    "ids of this model's tokenizer without special tokens (LangChain sends those of another unless "
                    "check_embedding_ctx_length=False)",
                    name,
                )

    def schema(self) -> Schema:
        """Any of the four."""
        ids = {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": self.offer.largest_id}}
        return {
            "anyOf": [
                {"type": "string"},
                {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": self.most},
                {**ids, "minItems": 1},
                {"type": "array", "items": ids, "minItems": 1, "maxItems": self.most},
            ]
        }


@lru_cache(maxsize=8)
def fields(offer: Offer, limits: ServerLimits) -> Mapping[str, Field]:
    """The fields of a request."""
    return {
        "input": Inputs(
            "A text, a list of texts, the token ids of one text (without special tokens), or a list of such lists.",
            limits.max_inputs,
            offer,
            required=True,
        ),
        **cut_fields(offer, limits),
        "encoding_format": Choice("float for numbers, base64 for bytes; default: float.", ENCODINGS),
        "input_type": KIND_FIELD,
        "output_dtype": Choice("Number format; binary has eight dims per byte. Default: float32.", STORED),
    }


async def embeddings(call: Call) -> Reply:
    """Answer a request."""
    given = await call.read(fields)
    answer = await ask(call, given, given["input"], "input", given.get("input_type"))
    kind = given.get("output_dtype", "float32")
    stored = store(answer.vectors, kind)
    written = array_texts if given.get("encoding_format", "float") == "float" else base64_texts
    entry = b'{"object":"embedding","index":%d,"embedding":%b}'
    entries = await listed(entry % (index, vector) for index, vector in enumerate(written(stored, kind)))
    rest = {
        "model": call.service.model.offer.named(answer.cut),
        "usage": {"prompt_tokens": answer.tokens, "total_tokens": answer.tokens},
    }
    return json_reply(rest, answer_headers(answer), before=b'"object":"list","data":[%b],' % b",".join(entries))


USAGE_SCHEMA: Schema = {
    "type": "object",
    "properties": {"prompt_tokens": {"type": "integer"}, "total_tokens": {"type": "integer"}},
    "required": ["prompt_tokens", "total_tokens"],
}
_VECTOR: Schema = {"anyOf": [{"type": "array", "items": {"type": "number"}}, {"type": "string"}]}
_REPLY: Schema = {
    "type": "object",
    "properties": {
        "object": {"const": "list"},
        "data": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "object": {"const": "embedding"},
                    "index": {"type": "integer"},
                    "embedding": _VECTOR,
                },
                "required": ["object", "index", "embedding"],
            },
        },
        "model": {"type": "string", "description": "The model and the cut that was used, as in demitasse:3x128."},
        "usage": USAGE_SCHEMA,
    },
    "required": ["object", "data", "model", "usage"],
}
EMBEDDINGS = Endpoint(
    "POST",
    ("/v1/embeddings", "/embeddings"),
    "Embed texts.",
    embeddings,
    _REPLY,
    fields,
    {"model": "demitasse:3x128", "input": ["a ristretto", "a lungo"]},
)
