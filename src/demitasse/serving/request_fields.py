"""The fields of a request: each checks the value it is given and describes itself for the OpenAPI document.

What does not fit ends in one sentence that names the field, what it may be, and what was given.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from difflib import get_close_matches
from itertools import islice
from typing import Any

from demitasse.encoding.text_checks import checked
from demitasse.host.fields import shown_json
from demitasse.serving.api_errors import ApiError, bad_request

Schema = dict[str, Any]
_COMPARED, _LONGEST_NAME = 32, 40  # comparing names takes time, and a stranger may send any number of any length
_ALIKE = 0.8  # how near a name that we do not know must be to one of ours before it is taken for a slip
# What others call our fields; to ignore them would give another answer than was asked for.
_SYNONYMS = {
    "dims": "dimensions",
    "output_dimension": "dimensions",
    "truncate_dim": "dimensions",
    "truncation": "truncate",
    "embed_dtype": "output_dtype",
    "embedding_type": "output_dtype",
}


@dataclass(frozen=True)
class Field(ABC):
    """One field of a JSON object; `null` counts as left out."""

    about: str
    _: KW_ONLY
    required: bool = False

    @abstractmethod
    def read(self, name: str, value: object) -> Any:
        """`value` as it will be used."""

    @abstractmethod
    def schema(self) -> Schema:
        """What the OpenAPI document says about it, but for its description."""

    def refused(self, name: str, wanted: str, value: object) -> ApiError:
        """The error for a wrong value."""
        return bad_request(f"{name} must be {wanted}, not {shown_json(value)}", name.partition("[")[0])


@dataclass(frozen=True)
class Whole(Field):
    """A whole number between two others."""

    least: int
    most: int

    def read(self, name: str, value: object) -> int:
        """The number."""
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not self.least <= value <= self.most:
            raise self.refused(name, f"a whole number from {self.least} to {self.most}", value)
        return value

    def schema(self) -> Schema:
        """A bounded integer."""
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


@dataclass(frozen=True)
class Number(Field):
    """A number above 0, up to a limit."""

    most: float

    def read(self, name: str, value: object) -> float:
        """The number."""
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= self.most:  # nan neither
            raise self.refused(name, f"a number above 0, up to {self.most:,g}", value)
        return float(value)

    def schema(self) -> Schema:
        """A bounded number."""
        return {"type": "number", "exclusiveMinimum": 0, "maximum": self.most}


@dataclass(frozen=True)
class Flag(Field):
    """True or false."""

    def read(self, name: str, value: object) -> bool:
        """The flag."""
        if not isinstance(value, bool):
            raise self.refused(name, "true or false", value)
        return value

    def schema(self) -> Schema:
        """A boolean."""
        return {"type": "boolean"}


@dataclass(frozen=True)
class Choice(Field):
    """One of a few words."""

    allowed: tuple[str, ...]

    def read(self, name: str, value: object) -> str:
        """The word."""
        if not isinstance(value, str) or value not in self.allowed:
            raise self.refused(name, f"one of {', '.join(self.allowed)}", value)
        return value

    def schema(self) -> Schema:
        """An enumeration."""
        return {"type": "string", "enum": list(self.allowed)}


@dataclass(frozen=True)
class Text(Field):
    """A string."""

    pattern: str | None = None  # for the document alone: what it means is checked where it is used

    def read(self, name: str, value: object) -> str:
        """The string, as valid Unicode."""
        if not isinstance(value, str):
            raise self.refused(name, "a string", value)
        return next(checked([value]))

    def schema(self) -> Schema:
        """A string."""
        return {"type": "string"} | ({} if self.pattern is None else {"pattern": self.pattern})


@dataclass(frozen=True)
class Texts(Field):
    """One string or a list of them; with `objects`, each may also be an object with a field `text`."""

    most: int
    objects: bool = False

    def read(self, name: str, value: object) -> list[str]:
        """The strings, as valid Unicode."""
        given = [value] if isinstance(value, str) else value
        if not isinstance(given, list) or not given:
            raise self.refused(name, "a string or a list of strings, with at least one", value)
        check_count(name, len(given), self.most)
        texts = [one["text"] if self.objects and isinstance(one, dict) and "text" in one else one for one in given]
        for index, text in enumerate(texts):
            if not isinstance(text, str):
                raise self.refused(f"{name}[{index}]", "a string", text)
        return list(checked(texts))

    def schema(self) -> Schema:
        """A string, or an array of what one may be."""
        one: Schema = {"type": "string"}
        if self.objects:
            one = {"anyOf": [one, {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}]}
        return {"anyOf": [{"type": "string"}, {"type": "array", "items": one, "minItems": 1, "maxItems": self.most}]}


def check_count(name: str, count: int, most: int) -> None:
    """Refuse more inputs than the server takes in one request."""
    if count > most:
        raise ApiError(
            413,
            f"{name} has {count:,} inputs and this server takes {most:,} in one request; send fewer at a time",
            param=name,
            code="request_too_large",
        )


def read_fields(fields: Mapping[str, Field], body: object) -> dict[str, Any]:
    """The values of a request, those that are left out not among them.

    Fields that we do not know are ignored, as OpenAI's `user` is, unless their name is nearly one of ours.
    """
    if not isinstance(body, dict):
        raise bad_request(f'the body must be a JSON object such as {{"input": "a text"}}, not {shown_json(body)}')
    for name in islice((name for name in body if name not in fields), _COMPARED):
        meant = _SYNONYMS.get(name) or next(iter(get_close_matches(name[:_LONGEST_NAME], fields, 1, _ALIKE)), None)
        if meant in fields:
            raise bad_request(f"there is no field {shown_json(name)}; did you mean {meant!r}?", meant)
    for name, field in fields.items():
        if field.required and body.get(name) is None:
            raise bad_request(f"the request has no field {name!r}; {field.about[0].lower()}{field.about[1:]}", name)
    return {
        name: fields[name].read(name, value) for name, value in body.items() if name in fields and value is not None
    }


def object_schema(fields: Mapping[str, Field]) -> Schema:
    """The JSON schema of a request with these fields."""
    properties = {}
    for name, field in fields.items():
        schema = field.schema()
        if not field.required:
            schema = {"anyOf": [*schema.get("anyOf", [schema]), {"type": "null"}]}
        properties[name] = schema | {"description": field.about}
    required = [name for name, field in fields.items() if field.required]
    return {"type": "object", "properties": properties, "required": required}
