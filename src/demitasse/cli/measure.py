"""`demitasse measure`: the options of `demitasse.measure`, one flag each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import demitasse
from demitasse.cli.eval import asked_cuts, check_writable, numbers, warnings_on_one_line
from demitasse.cli.options import (
    AGAIN,
    DataOption,
    DeviceOption,
    DimsOption,
    LayersOption,
    ModelArgument,
    TasksOption,
)
from demitasse.errors import DataError

if TYPE_CHECKING:
    from demitasse.encoding.encoder import Encoder
    from demitasse.planning.measure import MeasureOptions
    from demitasse.planning.profile import Profile

TextsOption = Annotated[
    str | None,
    typer.Option(help="File with a text a line, without labels: quality is then agreement with the full model."),
]
SecondsOption = Annotated[float, typer.Option(help="How long timing may take, about.")]


def measure(  # noqa: PLR0913 - options of a command, each named when used
    model: ModelArgument = None,
    tasks: TasksOption = None,
    data: DataOption = None,
    texts: TextsOption = None,
    layers: LayersOption = None,
    dims: DimsOption = None,
    precision: Annotated[
        list[str] | None, typer.Option(help=f"fp32 or int8, for a model on torch; {AGAIN}. Default: both.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Texts of a batch, for texts a second.")] = 32,
    rounds: Annotated[int, typer.Option(min=2, help="Rounds of timing, at most.")] = 12,
    seconds: SecondsOption = 60.0,
    compare: Annotated[
        list[str] | None, typer.Option("--compare", "-c", help=f"A further model, measured whole; {AGAIN}.")
    ] = None,
    json: Annotated[
        Path | None, typer.Option(help="File to write the profile to; - is stdout, without the table.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help=".html file to write: the profile to look at and try.")] = None,
    device: DeviceOption = None,
) -> None:
    """Measure quality, latency, speed and size of a model at every cut, on this machine."""
    _check_outputs(json, report)
    asked = (None if layers is None else numbers(layers, "layers"), None if dims is None else numbers(dims, "dims"))
    from demitasse.host.json_files import json_text, save_result
    from demitasse.planning.measure import MeasureOptions
    from demitasse.planning.profile_json import as_plain

    # Whatever is wrong is said before the work, not after it.
    options = MeasureOptions(precisions=precision, batch=batch, rounds=rounds, seconds=seconds)
    source = Source(model, tasks, data, texts, device)
    encoder = source.load()
    if any(asked):
        options = replace(options, cuts=asked_cuts(encoder.full, *asked, first=True))
    profile = source.measure(encoder, options, compare or ())
    if json is not None and str(json) == "-":
        typer.echo(json_text(as_plain(profile)), nl=False)
    else:
        from rich.console import Console

        from demitasse.display.profile_table import show_profile

        show_profile(profile, Console())
    if json is not None and str(json) != "-":
        save_result(as_plain(profile), json)
        typer.echo(f"{json} written", err=True)
    if report is not None:
        demitasse.report(profile, report)
        typer.echo(f"{report} written", err=True)


@dataclass(frozen=True)
class Source:
    """What is measured, and on what."""

    model: str | None = None
    tasks: Sequence[str] | None = None
    data: Path | None = None
    texts: str | None = None
    device: str | None = None

    def __post_init__(self) -> None:
        if self.tasks and self.texts:
            raise DataError("--tasks and --texts were both given; quality comes from one of them, so choose")
        if self.data is not None and not self.tasks:
            raise DataError("--data was given without --tasks; name the tasks that are to be found there")

    def load(self) -> Encoder:
        """The model, on its device."""
        return demitasse.load(self.model, device=self.device)

    def measure(self, encoder: Encoder, options: MeasureOptions, compare: Sequence[str] = ()) -> Profile:
        """Its profile, under the name that was typed, so that the name can be typed again."""
        from demitasse.evaluation.task_files import read_tasks
        from demitasse.planning.measure import BUILT_IN_NAME

        tasks = read_tasks(self.tasks, self.data) if self.tasks else None
        with warnings_on_one_line():
            profile = demitasse.measure(encoder, tasks, texts=self.texts, options=options, compare=compare)
        return replace(profile, model=self.model or BUILT_IN_NAME)


def _check_outputs(json: Path | None, report: Path | None) -> None:
    if json is not None and str(json) != "-":
        if json.is_dir():
            raise DataError(f"--json {json} is a folder; give the name of a file, or - for stdout")
        check_writable("--json", json)
    if report is not None:
        check_report(report)


def check_report(path: Path) -> None:
    """Refuse a place for the report where it cannot be written, before the work."""
    from demitasse.display.profile_page import check_page

    check_page(path)
    check_writable("--report", path)
