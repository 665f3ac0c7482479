"""`demitasse web`: a site that searches texts in the browser."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from demitasse.cli.indexes import WebIndexOption, web_index
from demitasse.cli.models import load_model
from demitasse.cli.options import CutOption, ForceOption, ModelOption, OutFolderOption
from demitasse.cli.outputs import check_model_folder

if TYPE_CHECKING:
    from demitasse.encoding.encoder import Encoder
    from demitasse.exporting.web import WebIndex


def web(
    out: OutFolderOption,
    model: ModelOption = None,
    cut: CutOption = None,
    index: WebIndexOption = None,
    force: ForceOption = False,
) -> None:
    """Write a site that searches an index in the browser, offline once loaded; without one, sample sentences."""
    from demitasse.exporting.web import export_web

    check_model_folder(out, model, force=force)
    encoder = load_model(model, cut, "cpu")
    searched = sample_index(encoder) if index is None else web_index(index)
    typer.echo(export_web(encoder, out, index=searched, page=True, force=force))
    typer.echo(f"to look at it: python -m http.server --directory {out}", err=True)


def sample_index(encoder: Encoder) -> WebIndex:
    """The sentences that come with demitasse, indexed by `encoder`."""
    from demitasse.host.bundled import corpus
    from demitasse.search.index import Index

    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "index"
        Index.build(encoder, corpus(), target, progress=False)
        return web_index(target)
