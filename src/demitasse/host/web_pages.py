"""Pages of one file: a template, and the styles and scripts that ship beside it, joined into one text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")


def joined(paths: Iterable[Path]) -> str:
    """The lines of some styles or scripts as one text, in the order given."""
    return "\n".join(_squeezed(path.read_text(encoding="utf-8")) for path in paths)


def filled(template: Path, parts: Mapping[str, str]) -> str:
    """A page with each `{{name}}` replaced, all in one pass: nothing in a part is taken for a placeholder."""
    return _PLACEHOLDER.sub(lambda match: parts[match[1]], template.read_text(encoding="utf-8"))


def as_script(value: Any) -> str:
    r"""JSON that is safe inside a script element: nothing in it can end the element or start another.

    >>> print(as_script("</script><!--"))
    "\u003c/script\u003e\u003c!--"
    """
    plain = json.dumps(value, allow_nan=False, separators=(",", ":"))  # ASCII only
    return plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _squeezed(text: str) -> str:
    """Without indentation, empty lines and comment lines; no string in our files spans lines, so none is changed."""
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))
