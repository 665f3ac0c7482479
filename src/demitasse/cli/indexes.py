"""The indexes that commands work on: opened with the model they were made with, or with another cut of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from demitasse.cli.models import load_model

if TYPE_CHECKING:
    from demitasse.exporting.web import WebIndex
    from demitasse.search.index import Index

FolderArgument = Annotated[Path, typer.Argument(help="Folder of an index, as written by demitasse index build.")]
IndexModelOption = Annotated[
    str | None, typer.Option("--model", "-m", help="Model folder; default: the one the index was made with.")
]
WebIndexOption = Annotated[
    Path | None,
    typer.Option("--index", "-i", help="Folder of an index to search there, as written by demitasse index build."),
]


def open_index(folder: Path, model: str | None = None, device: str | None = None) -> Index:
    """The index in `folder`; its queries are encoded by `model`, if one is named, on `device`."""
    from demitasse.search.description import Description
    from demitasse.search.index import Index

    if model is not None:
        return Index.open(folder, load_model(model, None, device))
    return Index.open(folder, None if device is None else Description.read(folder).load(folder, device))


def web_index(folder: Path) -> WebIndex:
    """What a web folder takes of the index in `folder`."""
    from demitasse.exporting.web import WebIndex
    from demitasse.search.contents import contents

    held = contents(folder)
    return WebIndex(held.cut, held.space, held.ids, held.texts, held.vectors)
