"""`demitasse fit`: the options of `demitasse.fit_exits`, one flag each."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

import demitasse
from demitasse.cli.models import load_model
from demitasse.cli.options import BaseOption, DeviceOption, ForceOption, OutFolderOption
from demitasse.cli.outputs import check_model_folder


def fit(  # noqa: PLR0913 - options of a command, each named when used
    sentences: Annotated[
        Path,
        typer.Argument(help="File with one sentence per line, or a column text (.jsonl, .csv, .parquet); - is stdin."),
    ],
    base: BaseOption,
    out: OutFolderOption,
    limit: Annotated[int | None, typer.Option(min=1, help="Maximum number of sentences to read.")] = None,
    order: Annotated[bool, typer.Option(help="Rotate the embedding space so that narrow cuts lose less.")] = True,
    refine: Annotated[bool, typer.Option(help="Distil similarities into the exits after the closed-form fit.")] = True,
    device: DeviceOption = None,
    force: ForceOption = False,
) -> None:
    """Fit an exit at every depth on unlabelled sentences, so that shallow cuts give good vectors."""
    from demitasse.data.text_rows import read_texts

    check_model_folder(out, base, force=force)
    lines = islice(read_texts(sentences), limit)  # a stream: the file may be larger than memory
    encoder = load_model(base, None, device)
    fitted = demitasse.fit_exits(encoder, lines, order=order, refine=refine)
    fitted.save(out, force=force)
    typer.echo(f"{out}: {fitted!r}, fitted on {fitted.record['data']['sentences']} sentences")
    typer.echo("on held-out sentences, compared with the full model:")
    for entry in fitted.record["cuts"]:
        quality = entry["held_out"]
        typer.echo(f"  {entry['cut']:>8}  {quality['neighbours']:.0%} of the 10 nearest neighbours are the same")
