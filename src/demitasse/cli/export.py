"""`demitasse export`: the options of `demitasse.export`, one flag each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import demitasse
from demitasse.cli.models import load_model
from demitasse.cli.options import CutOption, ForceOption, OutFolderOption, RequiredModelArgument, one_of
from demitasse.cli.outputs import check_model_folder
from demitasse.extras import EXPORT, need


def export(
    model: RequiredModelArgument,
    out: OutFolderOption,
    cut: CutOption = None,
    format: Annotated[
        str,
        typer.Option(
            "--format",
            "-f",
            help="blocks, blocks-int8, onnx, onnx-int8 or sentence-transformers.",
            autocompletion=one_of("blocks", "blocks-int8", "onnx", "onnx-int8", "sentence-transformers"),
        ),
    ] = "blocks-int8",
    sentences: Annotated[
        Path | None,
        typer.Option(help="File with one sentence per line, to calibrate int8 and to compare the vectors on."),
    ] = None,
    force: ForceOption = False,
) -> None:
    """Write a model that runs without torch: blocks for every cut, or one ONNX graph for one cut."""
    from demitasse.data.text_rows import read_texts

    need("demitasse export", EXPORT)  # before loading, which alone would name fewer packages
    check_model_folder(out, model, force=force)
    lines = None if sentences is None else list(read_texts(sentences))
    typer.echo(demitasse.export(load_model(model, cut, "cpu"), out, format=format, sentences=lines, force=force))
