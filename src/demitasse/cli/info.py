"""`demitasse info`: what a model is made of, and the size of each cut."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from demitasse.cli.models import load_model
from demitasse.cli.options import ModelArgument


def info(
    model: ModelArgument = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show a model's layers, dims and exits, and the size of each cut."""
    encoder = load_model(model, None, "cpu")
    from demitasse.display.model_table import describe, size_table

    facts = describe(encoder)
    typer.echo(json.dumps(facts, indent=2, ensure_ascii=False) if as_json else size_table(facts))
