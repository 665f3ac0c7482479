"""`demitasse export`: the options of `demitasse.export`, one flag each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import demitasse
from demitasse.cli.indexes import WebIndexOption, web_index
from demitasse.cli.models import load_model
from demitasse.cli.options import CutOption, ForceOption, OutFolderOption, one_of
from demitasse.cli.outputs import check_model_folder
from demitasse.encoding.precision import EXPORT_FORMATS
from demitasse.errors import DataError
from demitasse.extras import EXPORT, need

WEB_FORMAT = "web"


def export(  # noqa: PLR0913 - options of a command, each named when used
    out: OutFolderOption,
    model: Annotated[
        str | None, typer.Argument(help="Model folder or hub name; for the format web, default: the built-in model.")
    ] = None,
    cut: CutOption = None,
    format: Annotated[
        str,
        typer.Option(
            "--format",
            "-f",
            help="blocks, blocks-int8, onnx, onnx-int8, sentence-transformers, or web for browsers.",
            autocompletion=one_of(*EXPORT_FORMATS, WEB_FORMAT),
        ),
    ] = "blocks-int8",
    sentences: Annotated[
        Path | None,
        typer.Option(help="File with one sentence per line, to calibrate int8 and to compare the vectors on."),
    ] = None,
    index: WebIndexOption = None,
    force: ForceOption = False,
) -> None:
    """Write a model that runs without torch: blocks for every cut, one ONNX graph for one cut, or a web folder."""
    from demitasse.data.text_rows import read_texts

    if format == WEB_FORMAT:
        if sentences is not None:
            raise DataError("--sentences was given with the format web, which takes blocks as they are; leave it out")
        _export_web(model, out, cut, index, force=force)
        return
    if model is None:
        raise DataError(f"the format {format} was asked for without a model; give a model folder or a hub name")
    if index is not None:
        raise DataError(f"--index was given with the format {format}; only the format web takes an index")
    need("demitasse export", EXPORT)  # before loading, which alone would name fewer packages
    check_model_folder(out, model, force=force)
    lines = None if sentences is None else list(read_texts(sentences))
    typer.echo(demitasse.export(load_model(model, cut, "cpu"), out, format=format, sentences=lines, force=force))


def _export_web(model: str | None, out: Path, cut: str | None, index: Path | None, *, force: bool) -> None:
    from demitasse.exporting.web import export_web

    check_model_folder(out, model, force=force)
    searched = None if index is None else web_index(index)
    typer.echo(export_web(load_model(model, cut, "cpu"), out, index=searched, force=force))
