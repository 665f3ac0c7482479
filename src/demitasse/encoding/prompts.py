"""Prompts: what is put before every text, chosen by name or given as text."""

from __future__ import annotations

from collections.abc import Mapping

from demitasse.errors import DataError

# A model without prompts still takes these two names, so that retrieval code works with any model.
_ALWAYS = ("query", "document")
_DOCUMENT_NAMES = ("document", "passage", "corpus")


def prompt_text(prompts: Mapping[str, str], name: str | None, default: str | None) -> str:
    """What the prompt `name` puts before every text; `None` is the model's default.

    >>> prompt_text({"query": "query: "}, "query", None)
    'query: '
    """
    if name is None and not default:
        return ""
    chosen = default if name is None else name
    if not isinstance(chosen, str):
        raise DataError(f"prompt_name is of type {type(chosen).__name__}; give the name of a prompt, such as 'query'")
    if chosen in prompts:
        return prompts[chosen]
    if chosen == "document":
        return next((prompts[other] for other in _DOCUMENT_NAMES if other in prompts), "")
    if chosen == "query":
        return ""
    none = "" if chosen else ', or prompt="" for none'
    raise DataError(f"this model has no prompt {chosen!r}; use one of {', '.join(_names(prompts))}{none}")


def literal_prompt(prompts: Mapping[str, str], text: str) -> str:
    """`text`, to be put before every text as it is; refused if it is the name of a prompt.

    >>> literal_prompt({"query": "query: "}, "search for: ")
    'search for: '
    """
    if not isinstance(text, str):
        raise DataError(f"prompt is of type {type(text).__name__}; give the text to put before each text")
    if text in _names(prompts):
        raise DataError(
            f"prompt={text!r} is the name of a prompt, and prompt is put before each text as it is; "
            f"write prompt_name={text!r} (in a shell: --prompt-name {text})"
        )
    return text


def _names(prompts: Mapping[str, str]) -> list[str]:
    return sorted({*prompts, *_ALWAYS})
