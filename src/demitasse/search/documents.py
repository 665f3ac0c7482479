"""What is put into an index: texts with ids and metadata, checked and taken in pieces."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, repeat
from typing import Any

from demitasse.encoding.text_checks import checked, text_series
from demitasse.errors import DataError, shown

PIECE = 4096  # texts that are encoded, written and made visible together
_END = object()


@dataclass(frozen=True)
class NewDocument:
    """A text to put in; without an id it gets the next number."""

    text: str
    id: str | None
    metadata: str | None  # as JSON


def new_documents(
    texts: Iterable[str], ids: Iterable[str] | None, metadata: Iterable[Mapping[str, Any] | None] | None
) -> Iterator[NewDocument]:
    """Texts with their ids and metadata, one by one."""
    series = checked(text_series(texts))
    for name, given in (("ids", ids), ("metadata", metadata)):
        if given is not None and (isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable)):
            raise DataError(f"{name} must be a list with one for each text, not {shown(given)}")
    return _documents(series, ids, metadata)


def _documents(
    texts: Iterator[str], ids: Iterable[str] | None, metadata: Iterable[Mapping[str, Any] | None] | None
) -> Iterator[NewDocument]:
    id_of = repeat(None) if ids is None else iter(ids)
    metadata_of = repeat(None) if metadata is None else iter(metadata)
    number = -1
    for number, text in enumerate(texts):
        id_, facts = next(id_of, _END), next(metadata_of, _END)
        for name, value in (("ids", id_), ("metadata", facts)):
            if value is _END:
                raise DataError(f"{name} has {number} entries, and there are more texts; give one for each text")
        yield NewDocument(text, None if ids is None else _checked_id(id_, number), _as_json(facts, number))
    for name, given, rest in (("ids", ids, id_of), ("metadata", metadata, metadata_of)):
        if given is not None and next(rest, _END) is not _END:
            raise DataError(f"{name} has more entries than the {number + 1} texts; give one for each text")


def pieces(documents: Iterator[NewDocument], size: int = PIECE) -> Iterator[list[NewDocument]]:
    """Lists of at most `size` documents."""
    while piece := list(islice(documents, size)):
        yield piece


def wanted_ids(ids: Iterable[str]) -> list[str]:
    """The ids of texts that are looked for, without those that no text can have."""
    if isinstance(ids, (str, bytes)) or not isinstance(ids, Iterable):
        raise DataError(f"ids must be a list of strings, not {shown(ids)}")
    wanted = list(ids)
    for id_ in wanted:
        if not isinstance(id_, str):
            raise DataError(f"ids has {shown(id_)}; every id is a string")
    return [id_ for id_ in wanted if is_unicode(id_)]


def _checked_id(given: object, number: int) -> str:
    if not isinstance(given, str) or not given:
        raise DataError(f"ids[{number}] is {shown(given)}; every id must be a string that is not empty")
    if not is_unicode(given):
        raise DataError(f"ids[{number}] is {shown(given)}, which is not valid Unicode; give another id")
    return given


def is_unicode(given: str) -> bool:
    """Whether it has no half of a surrogate pair, for which databases have no bytes."""
    return given.isascii() or not any("\ud800" <= sign <= "\udfff" for sign in given)


def _as_json(given: object, number: int) -> str | None:
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise DataError(f"metadata[{number}] is {shown(given)}; give a dict of JSON values, or None")
    try:
        if not all(isinstance(name, str) for name in given):
            raise TypeError("a field has a name that is not a string")
        return json.dumps(_plain(dict(given)), allow_nan=False, ensure_ascii=True) if given else None
    except (TypeError, ValueError, RecursionError) as problem:
        raise DataError(f"metadata[{number}] cannot be written as JSON ({problem}); give JSON values") from None


def _plain(value: Any) -> Any:
    """Numbers of numpy as Python's."""
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is not a JSON number")
    return value
