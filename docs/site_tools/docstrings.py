"""For the API reference: what docstrings and fields say, in the Markdown that mkdocstrings shows."""

from __future__ import annotations

import io
import re
import tokenize
from typing import Any

import griffe

EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", flags=re.MULTILINE)


class Docstrings(griffe.Extension):
    """Doctests become code blocks, and the comment beside a field of a class becomes its docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:  # Markdown alone would read >>> as a quotation
            obj.docstring.value = EXAMPLE.sub(lambda example: f"```pycon\n{example[0]}\n```", obj.docstring.value)

    def on_attribute(self, *, attr: griffe.Attribute, **_: Any) -> None:
        if attr.docstring is None and isinstance(attr.parent, griffe.Class):
            comment = comment_in("\n".join(attr.lines))
            if comment:
                attr.docstring = griffe.Docstring(comment[0].upper() + comment[1:] + ".", parent=attr)


def comment_in(source: str) -> str:
    """The comment at the end of a statement; nothing where it cannot be read by itself."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(source.strip()).readline))
    except (tokenize.TokenError, IndentationError):
        return ""
    comments = [token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT]
    return comments[-1].split("noqa")[0].strip() if comments else ""
