"""`demitasse report`: a profile as a page to open, and as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import demitasse
from demitasse.cli.options import AGAIN
from demitasse.errors import DataError


def report(
    profile: Annotated[Path, typer.Argument(help="What demitasse measure --json wrote.")],
    out: Annotated[Path, typer.Option("--out", "-o", help=".html file to write.")] = Path("demitasse-report.html"),
    compare: Annotated[
        list[Path] | None, typer.Option("--compare", "-c", help=f"The profile of a further model; {AGAIN}.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help=".png, .svg or .pdf file to draw as well (extra plots).")] = None,
) -> None:
    """Write a profile as one HTML page: try budgets, see every cut, copy the numbers. It needs no network."""
    if plot is not None:
        from demitasse.display.charts import picture_kind

        picture_kind(plot)
    for path, how in ((profile, "{0}"), *((path, "MODEL --compare {0}") for path in compare or ())):
        if path.is_dir():
            asked = f"demitasse measure {how.format(path)} --json profile.json"
            raise DataError(f"{path} is a folder, not a profile; to measure the model in it, write {asked}")
    measured = demitasse.read_profile(profile)
    others = [demitasse.read_profile(path) for path in compare or ()]
    demitasse.report(measured, out, compare=others)
    typer.echo(f"{out} written", err=True)
    if plot is not None:
        from demitasse.display.profile_plots import plot_profile

        plot_profile(measured, plot, compare=others)
        typer.echo(f"{plot} drawn", err=True)
