"""`demitasse index`: build an index, change it, look at it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from demitasse.cli.indexes import FolderArgument, IndexModelOption, open_index
from demitasse.cli.options import CutOption, DeviceOption, ModelOption
from demitasse.errors import DataError

if TYPE_CHECKING:
    from demitasse.search.document_files import FileDocument

index = typer.Typer(help="Build and change an index of texts, which demitasse search searches.", no_args_is_help=True)
SourceArgument = Annotated[
    Path,
    typer.Argument(
        help="File with one text per line, or rows: .jsonl, .json, .csv, .tsv (.gz too), .parquet; or a BEIR folder; "
        "- is stdin."
    ),
]
ColumnOption = Annotated[
    str | None, typer.Option(help="Column with the texts; default: text, or the only one that holds strings.")
]
IdOption = Annotated[str | None, typer.Option("--id", help="Column with the ids; default: _id or id, else numbers.")]
GraphOption = Annotated[
    bool | None,
    typer.Option(
        "--graph/--no-graph",
        help="A graph of near neighbours (pip install 'demitasse[ann]'); default: beyond a million texts.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@index.command()
def build(  # noqa: PLR0913 - options of a command, each named when used
    source: SourceArgument,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the index.")],
    model: ModelOption = None,
    cut: CutOption = None,
    column: ColumnOption = None,
    id_column: IdOption = None,
    graph: GraphOption = None,
    device: DeviceOption = None,
    max_seq_length: Annotated[
        int | None, typer.Option(help="Truncate texts to this many tokens; default: what the model takes.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an index that is there.")] = False,
) -> None:
    """Build an index; the same command goes on with one that was interrupted."""
    from demitasse.cli.models import load_model
    from demitasse.search.building import check_target
    from demitasse.search.document_files import read_documents
    from demitasse.search.index import Index

    check_target(out, force=force)
    documents = read_documents(source, column, id_column)
    encoder = load_model(model, cut, device, max_seq_length)
    texts, ids, metadata = _columns(documents)
    made = Index.build(encoder, texts, out, ids=ids, metadata=metadata, graph=graph, force=force)
    typer.echo(f"{len(made):,} texts at {made.cut} indexed in {out}", err=True)


@index.command()
def add(
    folder: FolderArgument,
    source: SourceArgument,
    column: ColumnOption = None,
    id_column: IdOption = None,
    model: IndexModelOption = None,
    device: DeviceOption = None,
) -> None:
    """Add texts; one whose id is there already replaces that one."""
    from demitasse.search.document_files import read_documents

    documents = read_documents(source, column, id_column)
    opened = open_index(folder, model, device)
    texts, ids, metadata = _columns(documents)
    added = opened.add(texts, ids, metadata)
    typer.echo(f"{len(added):,} texts added to {folder}, which has {len(opened):,}", err=True)


@index.command()
def delete(
    folder: FolderArgument,
    ids: Annotated[list[str] | None, typer.Argument(help="Ids of texts.")] = None,
    source: Annotated[Path | None, typer.Option("--input", "-i", help="File with one id per line; - is stdin.")] = None,
) -> None:
    """Delete texts by their ids."""
    from demitasse.host.text_lines import read_lines

    if bool(ids) == (source is not None):
        raise DataError("give the ids of the texts to delete, or a file of them with --input")
    wanted = ids or [line for line in read_lines(source or Path("-")) if line]
    opened = open_index(folder)
    gone = opened.delete(wanted)
    rest = len({*wanted}) - gone
    absent = f"; {rest:,} {'was' if rest == 1 else 'were'} not there" if rest else ""
    typer.echo(f"{gone:,} texts deleted from {folder}, which has {len(opened):,}{absent}", err=True)


@index.command()
def compact(folder: FolderArgument, graph: GraphOption = None) -> None:
    """Write the vectors again as one file without those that were deleted, and measure how to search them."""
    opened = open_index(folder)
    opened.compact(graph=graph)
    typer.echo(f"{folder} is compact: {len(opened):,} texts", err=True)


@index.command()
def rebuild(
    folder: FolderArgument,
    cut: CutOption = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Model folder or hub name; default: the one it was made with.")
    ] = None,
    device: DeviceOption = None,
) -> None:
    """Encode the texts again at another cut or with another model; until that is done, the old index stays."""
    from demitasse.cli.models import load_model
    from demitasse.search.index import Index
    from demitasse.search.rebuilding import rebuild as rebuild_index

    opened = Index.open(folder)
    if model is None and cut is None:
        raise DataError("rebuild was given neither a cut nor a model; give --cut 3x128, --model, or both")
    encoder = opened.encoder.cut(cut or opened.cut) if model is None else load_model(model, cut, device)
    rebuild_index(folder, encoder)
    typer.echo(f"{folder} is rebuilt at {encoder.full}", err=True)


@index.command()
def info(folder: FolderArgument, as_json: JsonOption = False) -> None:
    """Show what an index holds, how large it is and what was measured."""
    from demitasse.display.hit_table import index_lines

    facts = open_index(folder).info()
    typer.echo(json.dumps(facts, indent=2, ensure_ascii=False) if as_json else "\n".join(index_lines(facts)))


@index.command()
def verify(folder: FolderArgument, as_json: JsonOption = False) -> None:
    """Read everything and compare it; exit 2 if something is wrong."""
    from demitasse.search.verifying import faults

    wrong = faults(folder)
    if as_json:
        typer.echo(json.dumps({"index": str(folder), "whole": not wrong, "wrong": wrong}, indent=2))
    else:
        typer.echo("\n".join(f"{name} {what}" for name, what in wrong.items()) or f"{folder} is whole")
    if wrong:
        raise typer.Exit(2)


def _columns(
    documents: Iterator[FileDocument],
) -> tuple[Iterable[str], Iterable[str] | None, Iterable[dict[str, Any]]]:
    """Documents as three series that are read side by side; no ids if the first has none."""
    first = next(documents, None)
    if first is None:
        raise DataError("there are no texts to index; give at least one")
    texts, ids, metadata = tee(_put_back(first, documents), 3)
    return (
        (one.text for one in texts),
        None if first.id is None else (one.id or "" for one in ids),
        (dict(one.metadata) for one in metadata),
    )


def _put_back(first: FileDocument, rest: Iterator[FileDocument]) -> Iterator[FileDocument]:
    yield first
    yield from rest
