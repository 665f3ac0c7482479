"""What may be encoded: checks that name the mistake, and the few things that are repaired instead of refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from demitasse.errors import DataError

# A model without prompts still takes these two names, so that retrieval code works with any model.
_DOCUMENT_NAMES = ("document", "passage", "corpus")


def checked(texts: Iterable[str]) -> Iterator[str]:
    r"""`texts` one by one, each known to be a string that can be written as UTF-8.

    Half a surrogate pair, as JSON and broken scrapers produce it, has no UTF-8 form: it becomes U+FFFD.

    >>> list(checked(["caf\u00e9", "broken \ud83d"]))
    ['café', 'broken �']
    """
    if isinstance(texts, (str, bytes)):
        raise DataError(f"texts must be a list of strings, not one {type(texts).__name__}; wrap it: [text]")
    if not isinstance(texts, Iterable):
        raise DataError(f"texts must be a list of strings, not {type(texts).__name__}")
    # Going through one of these gives the names of its columns.
    if isinstance(texts, Mapping) or hasattr(texts, "columns"):
        raise DataError(
            f"texts must be a list of strings, not a {type(texts).__name__}; give one column: texts['text']"
        )
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


def prompt_text(prompts: Mapping[str, str], name: str | None, default: str | None) -> str:
    """What the prompt `name` puts before every text; `None` is the model's default, `""` is no prompt.

    >>> prompt_text({"query": "query: "}, "query", None)
    'query: '
    """
    if name is None:
        name = default
    if not name:
        return ""
    if name in prompts:
        return prompts[name]
    if name == "document":
        return next((prompts[other] for other in _DOCUMENT_NAMES if other in prompts), "")
    if name == "query":
        return ""
    known = ", ".join(sorted({*prompts, "query", "document"}))
    raise DataError(f"this model has no prompt {name!r}; use one of {known}")
