"""`demitasse cut`: a smaller model, saved."""

from __future__ import annotations

from typing import Annotated

import typer

from demitasse.cli.models import load_model
from demitasse.cli.options import ForceOption, OutFolderOption, RequiredModelArgument
from demitasse.cli.outputs import check_model_folder


def cut_model(
    model: RequiredModelArgument,
    cut: Annotated[str, typer.Argument(help="Layers x dims, such as 3x128.")],
    out: OutFolderOption,
    force: ForceOption = False,
) -> None:
    """Save a smaller model, which sentence-transformers can open too."""
    check_model_folder(out, model, force=force)
    encoder = load_model(model, cut, "cpu")
    encoder.save(out, force=force)
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    typer.echo(f"{out}: {encoder!r}, {size / 1e6:.1f} MB")
