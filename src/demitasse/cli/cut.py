"""`demitasse cut`: a smaller model, saved."""

from __future__ import annotations

from typing import Annotated

import typer

from demitasse.cli.models import load_model
from demitasse.cli.options import OutFolderOption, RequiredModelArgument


def cut_model(
    model: RequiredModelArgument,
    cut: Annotated[str, typer.Argument(help="Layers x dims, such as 3x128.")],
    out: OutFolderOption,
) -> None:
    """Save a smaller model, which sentence-transformers can open too."""
    encoder = load_model(model, cut, "cpu")
    encoder.save(out)
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    typer.echo(f"{out}: {encoder!r}, {size / 1e6:.1f} MB")
