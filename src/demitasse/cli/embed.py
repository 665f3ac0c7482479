"""`demitasse embed`: a corpus in, a dataset of vectors out."""

from __future__ import annotations

from typing import Annotated

import typer

from demitasse.cli.models import load_model
from demitasse.cli.options import REPEATABLE, VECTOR_KINDS, CutOption, DeviceOption, ModelOption, parse_names


def embed(  # noqa: PLR0913 - options of a command, each named when used
    sources: Annotated[
        list[str], typer.Argument(help="Files, folders or globs: .parquet, .jsonl, .csv, .tsv, .txt (also .gz).")
    ],
    out: Annotated[str, typer.Option("--out", "-o", help="Folder of the dataset; with --ray also s3://bucket/folder.")],
    model: ModelOption = None,
    cut: CutOption = None,
    column: Annotated[
        str | None, typer.Option(help="Column with the texts; default: text, or the only one that holds strings.")
    ] = None,
    id_column: Annotated[
        str | None, typer.Option("--id", help="Column with the ids; default: id or _id, else rows are numbered.")
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(help=f"Columns to write beside each vector, such as title,url; {REPEATABLE}."),
    ] = None,
    vectors: Annotated[
        str,
        typer.Option(
            help="Store vectors as float32, float16, int8 or binary (eight dims per byte).", autocompletion=VECTOR_KINDS
        ),
    ] = "float32",
    deduplicate: Annotated[bool, typer.Option("--deduplicate", help="Of equal texts, write only the first.")] = False,
    prompt_name: Annotated[str | None, typer.Option(help="Name of one of the model's prompts, such as query.")] = None,
    prompt: Annotated[str | None, typer.Option(help="Text to put before each text, instead of a named prompt.")] = None,
    shard_rows: Annotated[int, typer.Option(help="Rows in one file of the dataset, about.")] = 100_000,
    device: DeviceOption = None,
    max_seq_length: Annotated[
        int | None, typer.Option(help="Truncate texts to this many tokens; default: what the model takes.")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Cores to use; default: all of them.")] = None,
    ray: Annotated[
        str | None,
        typer.Option(help="Run on Ray: local, auto, or the address of a cluster; --id names unique ids."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a dataset that is there; begin again where inputs have changed.")
    ] = False,
) -> None:
    """Encode a corpus of any size as a Parquet dataset; the same command goes on with one that was interrupted."""
    from demitasse.corpora.embed import embed_corpus
    from demitasse.corpora.options import CorpusOptions

    options = CorpusOptions(
        column=column,
        id=id_column,
        keep=parse_names(keep),
        vectors=vectors,
        deduplicate=deduplicate,
        prompt_name=prompt_name,
        prompt=prompt,
        shard_rows=shard_rows,
    )
    encoder = load_model(model, cut, device, max_seq_length, threads)
    if ray is not None:
        from demitasse.corpora.ray_corpus import VECTORS, RayCluster, embed_on_ray

        rows = embed_on_ray(encoder, sources, out, options, RayCluster(ray))
        typer.echo(f"{out}/{VECTORS}: {rows:,} {vectors} vectors of {encoder.full}", err=True)
        return
    summary = embed_corpus(encoder, sources, out, options, force=force)
    typer.echo(f"{out}: {'' if vectors == 'float32' else f'{vectors} '}vectors of {encoder.full}; {summary}", err=True)
    if summary.counts.bad:
        typer.echo(f"why rows were left out: {out}/_bad_rows", err=True)
