"""`demitasse encode`: texts in, vectors out."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import tee
from pathlib import Path
from typing import Annotated

import typer

from demitasse.cli.models import load_model
from demitasse.cli.options import CutOption, DeviceOption, ModelOption
from demitasse.cli.outputs import check_not_input
from demitasse.errors import DataError
from demitasse.host.text_lines import read_lines


def encode(  # noqa: PLR0913 - options of a command, each named when used
    texts: Annotated[list[str] | None, typer.Argument(help="Texts to encode.")] = None,
    model: ModelOption = None,
    cut: CutOption = None,
    input: Annotated[
        Path | None, typer.Option("--input", "-i", help="File with one text per line (.gz too); - is stdin.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help=".npy or .jsonl file to write; default: stdout.")
    ] = None,
    prompt_name: Annotated[str | None, typer.Option(help="Name of one of the model's prompts, such as query.")] = None,
    prompt: Annotated[str | None, typer.Option(help="Text to put before each text, instead of a named prompt.")] = None,
    vectors: Annotated[
        str, typer.Option(help="Store vectors as float32, float16, int8 or binary (eight dims per byte).")
    ] = "float32",
    device: DeviceOption = None,
) -> None:
    """Encode texts from arguments, a file or stdin (one text per line) as JSON lines or a .npy file."""
    from demitasse.cli.vector_files import check_format, write_vectors

    check_format(output, vectors)
    check_not_input(output, input)
    source = _texts(texts, input)
    encoder = load_model(model, cut, device)
    written, encoded = tee(source)
    pairs = zip(written, encoder.encode_iter(encoded, prompt_name=prompt_name, prompt=prompt), strict=True)
    count = write_vectors(pairs, encoder.full.dims, output, vectors)
    if output is not None:
        kind = "" if vectors == "float32" else f"{vectors} "
        typer.echo(f"{count} {kind}vectors of {encoder.full} written to {output}", err=True)


def _texts(texts: list[str] | None, source: Path | None) -> Iterator[str]:
    if texts and source is not None:
        raise DataError("texts were given both as arguments and by --input; use one of them")
    if texts:
        return iter(texts)
    if source is None and sys.stdin.isatty():
        raise DataError("there is nothing to encode; give texts as arguments, use --input FILE, or pipe lines to stdin")
    return read_lines(Path("-") if source is None else source)
