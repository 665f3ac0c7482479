"""`demitasse eval`: the options of `demitasse.evaluate`, one flag each."""

from __future__ import annotations

import re
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import demitasse
from demitasse.cli.options import (
    AGAIN,
    DataOption,
    DeviceOption,
    DimsOption,
    LayersOption,
    ModelArgument,
    TasksOption,
)
from demitasse.cut import Cut, grid, usual_dims
from demitasse.errors import DataError

if TYPE_CHECKING:
    from demitasse.evaluation.evaluation import Evaluation

_SPAN = re.compile(r"\s*(\d{1,5})\s*(?:-\s*(\d{1,5})\s*)?", re.ASCII)


def evaluate(  # noqa: PLR0913 - options of a command, each named when used
    model: ModelArgument = None,
    tasks: TasksOption = None,
    data: DataOption = None,
    layers: LayersOption = None,
    dims: DimsOption = None,
    document_layers: Annotated[
        str | None, typer.Option(help="Layers of documents, such as 6, or all; default: those of the query.")
    ] = None,
    precision: Annotated[
        str | None, typer.Option(help="fp32, fp16 or bf16; default: fp32, or what blocks are.")
    ] = None,
    compare: Annotated[
        list[str] | None, typer.Option("--compare", "-c", help=f"A further model to compare; {AGAIN}.")
    ] = None,
    cache: Annotated[Path | None, typer.Option(help="Folder in which vectors are kept for the next time.")] = None,
    json: Annotated[
        Path | None, typer.Option(help="File to write all numbers to; - is stdout, without tables.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help=".png, .svg or .pdf file to draw (extra plots).")] = None,
    resamples: Annotated[int, typer.Option(min=0, help="Draws that make an interval; 0 makes none.")] = 1000,
    device: DeviceOption = None,
) -> None:
    """Measure a model at every cut, from one pass over the texts: scored pairs and search, with intervals."""
    from demitasse.evaluation.task_files import read_tasks

    # Whatever is wrong is said before the work, not after it; so all models are loaded first.
    _check_outputs(json, plot, cache)
    asked = (None if layers is None else numbers(layers, "layers"), None if dims is None else numbers(dims, "dims"))
    documents = None if document_layers in (None, "all") else numbers(str(document_layers), "document-layers")
    found = read_tasks(tasks or ["sample"], data)
    names = (model, *(compare or ()))
    encoders = [demitasse.load(name, device=device, dtype=precision) for name in names]
    cuts = [asked_cuts(encoder.full, *asked, first=not number) for number, encoder in enumerate(encoders)]
    if documents is not None:
        Cut(max(documents), 1).within(encoders[0].full)
    evaluations: list[Evaluation] = []
    for name, encoder, wanted in zip(names, encoders, cuts, strict=True):
        against = None
        if document_layers is not None:
            depths = {cut.layers for cut in wanted} if documents is None else {*documents}
            against = sorted(depths & {*range(encoder.full.layers + 1)}) or [encoder.full.layers]
        with warnings_on_one_line():
            made = demitasse.evaluate(
                encoder, found, cuts=wanted, document_layers=against, cache=cache, resamples=resamples
            )
        evaluations.append(replace(made, model=name or "built-in"))
    _write(evaluations, json)
    if plot is not None:
        from demitasse.display.eval_plots import plot_evaluations

        plot_evaluations(evaluations, plot)
        typer.echo(f"{plot} drawn", err=True)


def numbers(text: str, option: str) -> list[int]:
    """The whole numbers that `text` names, ends of ranges included.

    >>> numbers("0-2,6", "layers")
    [0, 1, 2, 6]
    """
    spans = [_SPAN.fullmatch(part) for part in text.split(",")]
    ends = [(int(span[1]), int(span[2] or span[1])) for span in spans if span]
    if len(ends) < len(spans) or any(last < first for first, last in ends):
        raise DataError(f"--{option} {text!r} cannot be read; write numbers and ranges, such as 1,3,6 or 0-6")
    return sorted({number for first, last in ends for number in range(first, last + 1)})


def asked_cuts(full: Cut, layers: list[int] | None, dims: list[int] | None, *, first: bool) -> list[Cut]:
    """The cuts of one model; a further one, which may be smaller than the first, is measured at those it has."""
    depths = layers or range(full.layers + 1)
    widths = dims or usual_dims(full.dims)
    if first:  # the ends tell, before a grid is made of far too many
        Cut(max(depths), min(widths)).within(full)
        Cut(min(depths), max(widths)).within(full)
    has = [depth for depth in depths if depth <= full.layers], [width for width in widths if width <= full.dims]
    return grid(*has) or [full]


def _check_outputs(json: Path | None, plot: Path | None, cache: Path | None) -> None:
    if plot is not None:
        from demitasse.display.charts import picture_kind

        picture_kind(plot)
    for option, path in (("--json", json), ("--plot", plot)):
        if path is not None and str(path) != "-":
            if path.is_dir():
                raise DataError(
                    f"{option} {path} is a folder; give the name of a file{', or - for stdout' * (path is json)}"
                )
            check_writable(option, path)
    if cache is not None:
        if cache.exists() and not cache.is_dir():
            raise DataError(f"--cache {cache} is a file; give a folder, which is made where there is none")
        check_writable("--cache", cache)


def check_writable(option: str, path: Path) -> None:
    """Refuse a place where nothing can be made; nothing is left behind, not even its folder."""
    folder = path if path.is_dir() else next(parent for parent in path.absolute().parents if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as problem:
        raise DataError(
            f"{option} {path} cannot be written ({problem.strerror}); choose a place you may write to"
        ) from problem


def _write(evaluations: list[Evaluation], json: Path | None) -> None:
    from rich.console import Console

    from demitasse.display.eval_table import show
    from demitasse.evaluation.evaluation_json import as_plain, comparison
    from demitasse.host.json_files import json_text, save_result

    plain = as_plain(evaluations[0]) if len(evaluations) == 1 else comparison(evaluations)
    if json is not None and str(json) == "-":
        typer.echo(json_text(plain), nl=False)
        return
    show(evaluations, Console())
    if json is not None:
        save_result(plain, json)
        typer.echo(f"{json} written", err=True)


@contextmanager
def warnings_on_one_line() -> Iterator[None]:
    """Within the block, a warning is a line on stderr."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *_: typer.echo(f"warning: {message}", err=True)
        yield
