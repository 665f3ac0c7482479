"""`demitasse measure`: the options of `demitasse.measure`, one flag each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

import demitasse
from demitasse.cli.models import MeasureSource, requested_cuts
from demitasse.cli.options import (
    REPEATABLE,
    DataOption,
    DeviceOption,
    DimsOption,
    LayersOption,
    ModelArgument,
    SecondsOption,
    TasksOption,
    TextsOption,
    one_of,
    parse_numbers,
)
from demitasse.cli.outputs import check_json, check_report, is_stdout, write_json


def measure(  # noqa: PLR0913 - options of a command, each named when used
    model: ModelArgument = None,
    tasks: TasksOption = None,
    data: DataOption = None,
    texts: TextsOption = None,
    layers: LayersOption = None,
    dims: DimsOption = None,
    precision: Annotated[
        list[str] | None,
        typer.Option(
            help=f"fp32 or int8, for a torch model; {REPEATABLE}. Default: both.", autocompletion=one_of("fp32", "int8")
        ),
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Texts per batch when throughput is measured.")] = 32,
    rounds: Annotated[int, typer.Option(min=2, help="Maximum number of timing rounds.")] = 12,
    seconds: SecondsOption = 60.0,
    compare: Annotated[
        list[str] | None,
        typer.Option("--compare", "-c", help=f"Another model to measure, at its full size; {REPEATABLE}."),
    ] = None,
    json: Annotated[
        Path | None, typer.Option(help="File to write the profile to; - is stdout, without the table.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help=".html file to write: the profile as an interactive page.")
    ] = None,
    device: DeviceOption = None,
) -> None:
    """Measure quality, latency, throughput and size of a model at every cut, on this machine."""
    # Mistakes are reported before the work, not after it.
    check_json(json)
    check_report(report)
    numbers = parse_numbers(layers, "--layers"), parse_numbers(dims, "--dims")
    from demitasse.planning.measure import MeasureOptions
    from demitasse.planning.profile_json import as_plain

    options = MeasureOptions(precisions=precision, batch=batch, rounds=rounds, seconds=seconds)
    source = MeasureSource(model, tasks, data, texts, device)
    encoder = source.load()
    if any(numbers):
        options = replace(options, cuts=requested_cuts(encoder.full, *numbers, first=True))
    profile = source.measure(encoder, options, compare or ())
    if not is_stdout(json):
        from rich.console import Console

        from demitasse.display.profile_table import show_profile

        show_profile(profile, Console())
    write_json(as_plain(profile), json)
    if report is not None:
        demitasse.report(profile, report)
        typer.echo(f"{report} written", err=True)
