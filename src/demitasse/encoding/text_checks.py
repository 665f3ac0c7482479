"""What may be encoded: checks that name the mistake, and the few things that are repaired instead of refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from demitasse.encoding.tables import Column, columns_of, text_column
from demitasse.errors import DataError


def text_series(given: Iterable[str]) -> Iterable[str]:
    """`given` itself or, of a table, the column that holds the texts: `text`, or the only one with strings.

    >>> list(text_series({"id": [1, 2], "text": ["a ristretto", "a lungo"]}))
    ['a ristretto', 'a lungo']
    """
    columns = columns_of(given)
    if columns is not None:
        return columns[text_column(columns, option='texts=table["…"]')]
    if hasattr(given, "iloc") or hasattr(given, "to_pylist"):  # a Series of pandas, an array of Arrow
        return Column(given)
    return given


def checked(texts: Iterable[str]) -> Iterator[str]:
    r"""`texts` one by one, each known to be a string that can be written as UTF-8.

    Half a surrogate pair, as JSON and broken scrapers produce it, has no UTF-8 form: it becomes U+FFFD.

    >>> list(checked(["caf\u00e9", "broken \ud83d"]))
    ['café', 'broken �']
    """
    if isinstance(texts, (str, bytes)):
        raise DataError(f"texts must be a list of strings, not one {type(texts).__name__}; wrap it: [text]")
    if not isinstance(texts, Iterable) or getattr(texts, "ndim", 1) == 0:  # a numpy scalar only looks iterable
        raise DataError(f"texts must be a list of strings, not {type(texts).__name__}")
    return (_checked(text, position) for position, text in enumerate(texts))


def _checked(text: str, position: int) -> str:
    if not isinstance(text, str):
        raise DataError(f"text {position} is {_type(text)}; every text must be a string (use '' for a missing one)")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            # Through UTF-16, so that two halves of one pair become the character they encode.
            return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _type(value: object) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"
