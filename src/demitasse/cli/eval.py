"""`demitasse eval`: the options of `demitasse.evaluate`, one flag each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import demitasse
from demitasse.cli.models import requested_cuts
from demitasse.cli.options import (
    REPEATABLE,
    DataOption,
    DeviceOption,
    DimsOption,
    LayersOption,
    ModelArgument,
    TasksOption,
    one_of,
    parse_numbers,
)
from demitasse.cli.outputs import check_folder, check_json, check_plot, is_stdout, warnings_on_one_line, write_json
from demitasse.cut import Cut

if TYPE_CHECKING:
    from demitasse.evaluation.evaluation import Evaluation


def evaluate(  # noqa: PLR0913 - options of a command, each named when used
    model: ModelArgument = None,
    tasks: TasksOption = None,
    data: DataOption = None,
    layers: LayersOption = None,
    dims: DimsOption = None,
    document_layers: Annotated[
        str | None, typer.Option(help="Layers for documents, such as 6, or all; default: the same as for queries.")
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(
            help="fp32, fp16 or bf16; default: fp32, or the precision of exported blocks.",
            autocompletion=one_of("fp32", "fp16", "bf16"),
        ),
    ] = None,
    compare: Annotated[
        list[str] | None, typer.Option("--compare", "-c", help=f"Another model to compare with; {REPEATABLE}.")
    ] = None,
    cache: Annotated[Path | None, typer.Option(help="Folder that keeps vectors for the next run.")] = None,
    json: Annotated[
        Path | None, typer.Option(help="File to write all numbers to; - is stdout, without tables.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help=".png, .svg or .pdf file to draw (extra plots).")] = None,
    resamples: Annotated[
        int, typer.Option(min=0, help="Bootstrap resamples for each confidence interval; 0: no intervals.")
    ] = 1000,
    device: DeviceOption = None,
) -> None:
    """Score a model at every cut, from one pass over the texts: scored pairs and search, with confidence intervals."""
    from demitasse.evaluation.task_files import read_tasks

    # Mistakes are reported before the work, not after it, so all models are loaded first.
    check_json(json)
    check_plot(plot)
    check_folder("--cache", cache)
    numbers = parse_numbers(layers, "--layers"), parse_numbers(dims, "--dims")
    documents = None if document_layers == "all" else parse_numbers(document_layers, "--document-layers")
    loaded_tasks = read_tasks(tasks or ["sample"], data)
    names = (model, *(compare or ()))
    encoders = [demitasse.load(name, device=device, dtype=precision) for name in names]
    cuts = [requested_cuts(encoder.full, *numbers, first=not index) for index, encoder in enumerate(encoders)]
    if documents is not None:
        Cut(max(documents), 1).within(encoders[0].full)
    evaluations: list[Evaluation] = []
    for name, encoder, requested in zip(names, encoders, cuts, strict=True):
        against = None
        if document_layers is not None:
            depths = {cut.layers for cut in requested} if documents is None else {*documents}
            against = sorted(depths & {*range(encoder.full.layers + 1)}) or [encoder.full.layers]
        with warnings_on_one_line():
            evaluation = demitasse.evaluate(
                encoder, loaded_tasks, cuts=requested, document_layers=against, cache=cache, resamples=resamples
            )
        evaluations.append(replace(evaluation, model=name or "built-in"))
    _write(evaluations, json)
    if plot is not None:
        from demitasse.display.eval_plots import plot_evaluations

        plot_evaluations(evaluations, plot)
        typer.echo(f"{plot} written", err=True)


def _write(evaluations: list[Evaluation], json: Path | None) -> None:
    from rich.console import Console

    from demitasse.display.eval_table import show
    from demitasse.evaluation.evaluation_json import as_plain, comparison

    if not is_stdout(json):
        show(evaluations, Console())
    write_json(as_plain(evaluations[0]) if len(evaluations) == 1 else comparison(evaluations), json)
