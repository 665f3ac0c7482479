"""`demitasse plan`: the best cut for a budget, from a profile or measured first, exported if asked for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import demitasse
from demitasse.cli.models import MeasureSource
from demitasse.cli.options import (
    BytesOption,
    DataOption,
    DeviceOption,
    ForceOption,
    LatencyOption,
    PrecisionOption,
    QualityOption,
    SecondsOption,
    SizeOption,
    SpeedOption,
    TasksOption,
    TextsOption,
    VectorsOption,
    one_of,
    parse_min_quality,
)
from demitasse.cli.outputs import check_model_folder
from demitasse.errors import DataError
from demitasse.planning.budget import PREFER, Budget, NothingFits, as_fast, neighbours

if TYPE_CHECKING:
    from demitasse.encoding.encoder import Encoder
    from demitasse.planning.profile import MeasuredCut, Profile


def plan(  # noqa: PLR0913 - options of a command, each named when used
    profile: Annotated[
        Path | None,
        typer.Argument(help="Profile file, as written by demitasse measure --json; default: measure --model first."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="Model folder or hub name; default: the profile's, or the built-in model."),
    ] = None,
    latency_ms: LatencyOption = None,
    texts_per_second: SpeedOption = None,
    vector_bytes: BytesOption = None,
    model_mb: SizeOption = None,
    min_quality: QualityOption = None,
    documents: Annotated[int | None, typer.Option(help="Documents of an index, for --memory-gb.")] = None,
    memory_gb: Annotated[
        float | None, typer.Option("--memory-gb", help="Maximum size of the index of --documents, in gigabytes.")
    ] = None,
    recall: Annotated[
        float, typer.Option(help="Recall that a search of the index is to have, for an estimate of its time.")
    ] = 0.99,
    count: Annotated[
        float | None, typer.Option(help="Texts of a corpus, such as 1e9: what they cost at each cut on the front.")
    ] = None,
    sample: Annotated[
        Path | None, typer.Option(help="File with some of the texts of --count, to be timed here.")
    ] = None,
    euros_per_hour: Annotated[
        float | None, typer.Option("--euros-per-hour", help="What an hour of this machine costs, for --count.")
    ] = None,
    prefer: Annotated[
        str | None,
        typer.Option(
            help=f"What to optimize: {', '.join(PREFER)}; default: quality if a cost is limited, otherwise latency.",
            autocompletion=one_of(*PREFER),
        ),
    ] = None,
    precision: PrecisionOption = None,
    vectors: VectorsOption = None,
    export: Annotated[Path | None, typer.Option(help="Folder to write the chosen model to.")] = None,
    force: ForceOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    tasks: TasksOption = None,
    data: DataOption = None,
    texts: TextsOption = None,
    seconds: SecondsOption = 60.0,
    device: DeviceOption = None,
) -> None:
    """Choose the best cut for a budget; exit 1 if nothing fits, naming the limit that is in the way."""
    budget = Budget(
        latency_ms=latency_ms,
        texts_per_second=texts_per_second,
        vector_bytes=vector_bytes,
        model_mb=model_mb,
        quality=parse_min_quality(min_quality),
        prefer=prefer,
        documents=documents,
        memory_gb=memory_gb,
    )
    if not 0 < recall <= 1:
        raise DataError(f"--recall {recall:g} is not a share; write one above 0 and up to 1, such as 0.95")
    if count is None and (sample is not None or euros_per_hour is not None):
        raise DataError("--sample and --euros-per-hour are about a corpus; say how many texts it has, as --count 1e9")
    if not budget.limits and prefer is None and count is None:
        raise DataError("no budget was given; say what you can afford, such as --latency-ms 5 or --min-quality 97%")
    if export is not None:
        check_model_folder(export, model, force=force)
    source = MeasureSource(model, tasks, data, texts, device)
    _check_names(precision, vectors)
    measured, encoder = _profile(profile, source, seconds)
    # An index holds int8 vectors, and so does a corpus of any size.
    kinds = vectors or (["int8"] if documents is not None or count is not None else ())
    among = measured.select(precisions=precision or (), vectors=kinds)
    if count is not None:
        among = tuple(row for row in among if not budget.broken(row, measured.full.quality)) or among
    try:
        best = measured.best(budget, among)
    except NothingFits as problem:
        typer.echo(f"error: {problem}", err=True)
        raise typer.Exit(1) from None
    if count is not None:
        from demitasse.cli.corpus_costs import CorpusPlan

        CorpusPlan(count, sample, euros_per_hour, seconds).show(measured, among, encoder, device, as_json=as_json)
        return
    cheaper, better = neighbours(among, budget, best, measured.full.quality)
    tied = as_fast(among, budget, best, measured.full.quality)
    rows = {"best": best, "cheaper": cheaper, "better": better, "full": measured.full}
    if export is not None:
        from demitasse.planning.deploy import planned_model, write_model

        encoder = encoder or planned_model(measured, model, device)
        typer.echo(write_model(measured, encoder, best, export, force=force), err=True)
    if as_json:
        plain = _plain(measured, budget, rows, export) | _index(measured, best, documents, recall)
        typer.echo(json.dumps(plain, indent=2))
    else:
        from demitasse.display.profile_table import said_index, said_ties

        notes = (*said_ties(tied, best), *said_index(measured, best, documents, recall))
        _show(measured, budget, rows, notes, export)


def _check_names(precisions: Sequence[str] | None, vectors: Sequence[str] | None) -> None:
    """Refuse an unknown name before anything is measured."""
    from demitasse.encoding.vectors import STORED
    from demitasse.planning.measure import MeasureOptions

    MeasureOptions(precisions=precisions, vectors=vectors or STORED)


def _profile(path: Path | None, source: MeasureSource, seconds: float) -> tuple[Profile, Encoder | None]:
    """The profile in a file, or a new one with the encoder that was measured."""
    if path is None:
        from demitasse.planning.measure import MeasureOptions

        encoder = source.load()
        return source.measure(encoder, MeasureOptions(seconds=seconds)), encoder
    if path.is_dir():
        raise DataError(f"{path} is a folder, not a profile; to measure the model in it first, use --model {path}")
    if source.tasks or source.texts:
        raise DataError(f"{path} is a finished measurement; leave out --tasks and --texts, or the profile")
    profile = demitasse.read_profile(path)
    return (profile if source.model is None else replace(profile, model=source.model)), None


def _plain(
    profile: Profile, budget: Budget, rows: dict[str, MeasuredCut | None], export: Path | None
) -> dict[str, Any]:
    from demitasse.planning.deploy import commands, python
    from demitasse.planning.profile_json import measured_as_plain

    best = rows["best"]
    assert best is not None
    return {
        "model": profile.model,
        "fingerprint": profile.fingerprint,
        "measure": profile.measure,
        "budget": {name: value for name, value in asdict(budget).items() if value is not None},
        **{name: None if row is None else measured_as_plain(row) for name, row in rows.items()},
        "share": profile.share(best) if profile.full.quality > 0 else None,
        "commands": commands(profile, best, export),
        "python": python(profile, best, export),
    }


def _index(profile: Profile, best: MeasuredCut, documents: int | None, recall: float) -> dict[str, Any]:
    """What an index of so many documents costs, if any were named."""
    if documents is None:
        return {}
    from demitasse.encoding.vectors import index_bytes
    from demitasse.planning.index_cost import index_costs

    cost = index_costs(profile).get(best.cut.dims)
    search_ms = None if cost is None else round(cost.search_ms(documents, recall), 2)
    gigabytes = documents * index_bytes(best.cut.dims) / 1e9
    return {"index": {"documents": documents, "gigabytes": gigabytes, "recall": recall, "search_ms": search_ms}}


def _show(
    profile: Profile,
    budget: Budget,
    rows: dict[str, MeasuredCut | None],
    notes: Sequence[str],
    export: Path | None,
) -> None:
    from rich.console import Console

    from demitasse.display.profile_table import (
        near_limit,
        options_table,
        print_table,
        what_quality_is,
        where,
    )
    from demitasse.planning.deploy import commands, python

    console, best = Console(), rows["best"]
    assert best is not None
    console.print(f"{profile.model}: {best}", style="bold", highlight=False, markup=False)
    console.print(f"budget: {budget}", highlight=False, markup=False)
    print_table(options_table(profile, rows), console)
    for line in (what_quality_is(profile), f"measured: {where(profile)}", *near_limit(budget, best), *notes):
        console.print(line, style="dim", highlight=False, markup=False)
    console.print("\nto use it:", highlight=False)
    for line in (*commands(profile, best, export), python(profile, best, export)):
        console.print(f"  {line}", highlight=False, markup=False, soft_wrap=True)
