"""What a row means: its kind, texts and score, worked out from its column names."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from demitasse.data.row_readers import BadRowError
from demitasse.encoding.tables import listed
from demitasse.encoding.text_checks import checked

_NLI = ("premise", "hypothesis")  # their label is a class: entailment, neutral or contradiction
# Names for the two texts of a row: ours first, then those of other libraries.
_PAIR_COLUMNS = (
    ("anchor", "positive"),
    ("a", "b"),
    ("query", "positive"),
    ("text", "positive"),
    ("sentence1", "sentence2"),
    ("text1", "text2"),
    ("sent0", "sent1"),
    _NLI,
)
_NEGATIVE_COLUMN = re.compile(r"negatives?|negative_\d+|hard_neg")
_SCORE_COLUMNS = ("score", "label")
_GROUP_COLUMNS = ("texts", "set")
_TEXT_COLUMN = "text"
PLAIN = "plain"  # the kind of a row that is a single text


def text_key(text: str) -> str:
    r"""A key that texts share if they differ only in case and white space.

    >>> text_key(" A  Cup\n") == text_key("a cup")
    True
    """
    return " ".join(text.casefold().split())


def by_column(row: Any) -> Mapping[str, Any]:
    """A row by column name: without names, it is anchor, positive, and negatives or a score; a string is a text.

    >>> by_column(("a cup", "a mug", 0.9))
    {'anchor': 'a cup', 'positive': 'a mug', 'score': 0.9}
    """
    if isinstance(row, Mapping):
        return row
    if isinstance(row, str):
        return {_TEXT_COLUMN: row}
    if not isinstance(row, (list, tuple)):
        raise BadRowError(f"it is of type {type(row).__name__}, not a row")
    if len(row) == 3 and not isinstance(row[2], str):
        return dict(zip(("anchor", "positive", "score"), row, strict=True))
    return {**dict(zip(("anchor", "positive"), row, strict=False)), "negatives": row[2:]}


def kind_and_values(row: Mapping[str, Any]) -> tuple[str, list[str | float]]:
    """The kind of a row, and its texts, with its score last if it has one."""
    group = next((column for column in _GROUP_COLUMNS if column in row), None)
    if group is not None:
        distinct: dict[str, str] = {}
        for text in _listed(row, group):
            distinct.setdefault(text_key(text), text)
        if len(distinct) < 2:
            raise BadRowError(f"{group!r} has fewer than 2 different texts")
        return "groups", [*distinct.values()]
    names = next((pair for pair in _PAIR_COLUMNS if all(column in row for column in pair)), None)
    if names is None and _TEXT_COLUMN in row:
        return PLAIN, [_text(row[_TEXT_COLUMN], _TEXT_COLUMN)]
    if names is None:
        raise _unknown(row)
    texts: list[str | float] = [_text(row[column], column) for column in names]
    negatives = [text for column in row if _NEGATIVE_COLUMN.fullmatch(str(column)) for text in _listed(row, column)]
    if negatives:
        return "triples", [*texts, *negatives]
    score = next((column for column in _SCORE_COLUMNS if column in row), None)
    if score is None:
        return "pairs", texts
    if names == _NLI and score == "label":
        cure = "keep only the entailed rows and pass columns={'premise': 'anchor', 'hypothesis': 'positive'}"
        raise BadRowError("'label' beside 'premise' and 'hypothesis' is a class, not a score", cure)
    return "scored", [*texts, _number(row[score], score)]


def _unknown(row: Mapping[str, Any]) -> BadRowError:
    for first, second in _PAIR_COLUMNS:
        if first in row or second in row:
            return BadRowError(f"{second if first in row else first!r} is missing")
    cure = "name them anchor and positive (and negative or score) or texts, or map them with columns="
    return BadRowError(f"its columns are {listed(row) if row else 'all empty'}", cure)


def _listed(row: Mapping[str, Any], column: str) -> list[str]:
    """The texts of a column that holds a list of them, or one if it is not a group."""
    values = row[column]
    if isinstance(values, str) and column not in _GROUP_COLUMNS:
        values = [values]
    if not isinstance(values, (list, tuple)):
        wanted = "a list of strings" if column in _GROUP_COLUMNS else "a string"
        raise BadRowError(f"{column!r} holds a value of type {type(values).__name__}, not {wanted}")
    return [_text(value, column) for value in values]


def _text(value: Any, column: str) -> str:
    if not isinstance(value, str):
        raise BadRowError(f"{column!r} holds a value of type {type(value).__name__}, not a string")
    if not value or value.isspace():
        raise BadRowError(f"{column!r} is empty")
    return next(checked([value]))


def _number(value: Any, column: str) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise BadRowError(f"{column!r} is {value!r:.40}, not a finite number")
    return number


def kind_in_words(kind: str, texts: int) -> str:
    """The kind of a row with `texts` texts, for messages."""
    return f"{kind} (negatives: {texts - 2})" if kind == "triples" else kind
