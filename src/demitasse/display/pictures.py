"""Pictures as files: .png, .svg or .pdf, whole or not at all, the same every time. Extra `plots`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from demitasse.display.charts import STYLE
from demitasse.errors import DataError
from demitasse.extras import need
from demitasse.host.atomic import new_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The kinds of file, each with the fact that would make it another file tomorrow.
_KINDS: dict[str, dict[str, None]] = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


def picture_kind(path: Path) -> str:
    """The kind of picture that `path` is to be, such as ".png", if it can be drawn here."""
    kind = path.suffix.lower()
    if kind not in _KINDS:
        raise DataError(f"{path.name!r} does not say what kind of picture it is; end it with {', '.join(_KINDS)}")
    need("drawing a picture", {"matplotlib": "plots"})
    return kind


def save_picture(path: Path, drawn: Callable[[], Figure]) -> None:
    """Draw to a file, in the style of all pictures here."""
    kind = picture_kind(path)
    import matplotlib

    with matplotlib.rc_context(STYLE), new_file(path) as file:
        drawn().savefig(file, format=kind[1:], dpi=200, metadata=_KINDS[kind])
