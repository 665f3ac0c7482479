"""What a row means: its kind, its texts and its score, from the names of its columns."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from demitasse.data.row_readers import BadRowError
from demitasse.encoding.text_checks import checked

_CLASSED = ("premise", "hypothesis")  # their label says entailed, neutral or contradicted
# What the two texts of a row are called: ours first, then other libraries.
_NAMES = (
    ("anchor", "positive"),
    ("a", "b"),
    ("query", "positive"),
    ("text", "positive"),
    ("sentence1", "sentence2"),
    ("text1", "text2"),
    ("sent0", "sent1"),
    _CLASSED,
)
_NEGATIVE = re.compile(r"negatives?|negative_\d+|hard_neg")
_SCORES = ("score", "label")
_GROUPS = ("texts", "set")
_PLAIN_TEXT = "text"
PLAIN = "plain"  # the kind of a row that is one text


def text_key(text: str) -> str:
    r"""What two texts have in common if they differ only in case and white space.

    >>> text_key(" A  Cup\n") == text_key("a cup")
    True
    """
    return " ".join(text.casefold().split())


def columns_of(record: Any) -> Mapping[str, Any]:
    """A record by column: one without names is anchor, positive, and negatives or a score; a string is a text.

    >>> columns_of(("a cup", "a mug", 0.9))
    {'anchor': 'a cup', 'positive': 'a mug', 'score': 0.9}
    """
    if isinstance(record, Mapping):
        return record
    if isinstance(record, str):
        return {_PLAIN_TEXT: record}
    if not isinstance(record, (list, tuple)):
        raise BadRowError(f"it is of type {type(record).__name__} where a row must be")
    if len(record) == 3 and not isinstance(record[2], str):
        return dict(zip(("anchor", "positive", "score"), record, strict=True))
    return {**dict(zip(("anchor", "positive"), record, strict=False)), "negatives": record[2:]}


def interpreted(row: Mapping[str, Any]) -> tuple[str, list[str | float]]:
    """The kind of a row, and its texts and score."""
    group = next((column for column in _GROUPS if column in row), None)
    if group is not None:
        different: dict[str, str] = {}
        for text in _listed(row, group):
            different.setdefault(text_key(text), text)
        if len(different) < 2:
            raise BadRowError(f"{group!r} has fewer than 2 different texts")
        return "groups", [*different.values()]
    names = next((pair for pair in _NAMES if all(column in row for column in pair)), None)
    if names is None and _PLAIN_TEXT in row:
        return PLAIN, [_text(row[_PLAIN_TEXT], _PLAIN_TEXT)]
    if names is None:
        raise _unknown(row)
    texts: list[str | float] = [_text(row[column], column) for column in names]
    negatives = [text for column in row if _NEGATIVE.fullmatch(str(column)) for text in _listed(row, column)]
    if negatives:
        return "triples", [*texts, *negatives]
    score = next((column for column in _SCORES if column in row), None)
    if score is None:
        return "pairs", texts
    if names == _CLASSED and score == "label":
        cure = "keep the entailed rows only and pass columns={'premise': 'anchor', 'hypothesis': 'positive'}"
        raise BadRowError("'label' beside 'premise' and 'hypothesis' is a class and not a score", cure)
    return "scored", [*texts, _number(row[score], score)]


def _unknown(row: Mapping[str, Any]) -> BadRowError:
    for first, second in _NAMES:
        if first in row or second in row:
            return BadRowError(f"{second if first in row else first!r} is missing")
    cure = "name them anchor and positive (and negative or score) or texts, or say which is which with columns="
    return BadRowError(f"its columns are {', '.join(map(str, row)) or 'all empty'}", cure)


def _listed(row: Mapping[str, Any], column: str) -> list[str]:
    """The texts of a column that holds one or, mostly, a list of them."""
    values = row[column]
    if isinstance(values, str) and column not in _GROUPS:
        values = [values]
    if not isinstance(values, (list, tuple)):
        wanted = "a list of strings" if column in _GROUPS else "a string"
        raise BadRowError(f"{column!r} holds something of type {type(values).__name__} where {wanted} must be")
    return [_text(value, column) for value in values]


def _text(value: Any, column: str) -> str:
    if not isinstance(value, str):
        raise BadRowError(f"{column!r} holds something of type {type(value).__name__} where a string must be")
    if not value or value.isspace():
        raise BadRowError(f"{column!r} is empty")
    return next(checked([value]))


def _number(value: Any, column: str) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise BadRowError(f"{column!r} is {value!r:.40} where a finite number must be")
    return number


def shown(kind: str, texts: int) -> str:
    """The kind of a row in words."""
    return f"{kind} (negatives: {texts - 2})" if kind == "triples" else kind
