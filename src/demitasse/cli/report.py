"""`demitasse report`: a profile as an HTML page, and as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import demitasse
from demitasse.cli.options import REPEATABLE, ProfileArgument
from demitasse.cli.outputs import check_plot
from demitasse.errors import DataError


def report(
    profile: ProfileArgument,
    out: Annotated[Path, typer.Option("--out", "-o", help=".html file to write.")] = Path("demitasse-report.html"),
    compare: Annotated[
        list[Path] | None, typer.Option("--compare", "-c", help=f"Profile of another model; {REPEATABLE}.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help=".png, .svg or .pdf file to draw as well (extra plots).")] = None,
) -> None:
    """Write a profile as one HTML page to try budgets, see every cut and copy the numbers; it works offline."""
    check_plot(plot)
    for path, arguments in ((profile, "{0}"), *((path, "MODEL --compare {0}") for path in compare or ())):
        if path.is_dir():
            command = f"demitasse measure {arguments.format(path)} --json profile.json"
            raise DataError(f"{path} is a folder, not a profile; to measure the model in it, run {command}")
    measured = demitasse.read_profile(profile)
    others = [demitasse.read_profile(path) for path in compare or ()]
    demitasse.report(measured, out, compare=others)
    typer.echo(f"{out} written", err=True)
    if plot is not None:
        from demitasse.display.profile_plots import plot_profile

        plot_profile(measured, plot, compare=others)
        typer.echo(f"{plot} written", err=True)
