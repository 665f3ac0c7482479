"""`demitasse info`: what a model is made of, and the size of each cut; or whether its files are whole."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from demitasse.cli.models import load_model
from demitasse.cli.options import ModelArgument


def info(
    model: ModelArgument = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read every file and compare its hash; exit 2 if one is wrong.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show a model's layers, dims and exits, and the size of each cut."""
    if verify:
        _verify(model, as_json=as_json)
        return
    encoder = load_model(model, None, "cpu")
    from demitasse.display.model_table import describe, size_table

    facts = describe(encoder)
    typer.echo(json.dumps(facts, indent=2, ensure_ascii=False) if as_json else size_table(facts))


def _verify(model: str | None, *, as_json: bool) -> None:
    import demitasse

    name, wrong = model or "the built-in model", demitasse.verify(model)
    if as_json:
        typer.echo(json.dumps({"model": name, "whole": not wrong, "wrong": wrong}, indent=2))
    else:
        for file, what in wrong.items():
            typer.echo(f"{file} {what}")
        if not wrong:
            typer.echo(f"{name} is whole")
    if wrong:
        raise typer.Exit(2)
