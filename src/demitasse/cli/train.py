"""`demitasse train`: the options of `demitasse.train`, one flag each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

import demitasse
from demitasse.cli.options import AGAIN, DeviceOption
from demitasse.errors import DataError
from demitasse.extras import TRAIN, need


def train(  # noqa: PLR0913 - options of a command, each named when used
    data: Annotated[list[Path], typer.Argument(help=".jsonl, .csv, .tsv, .txt or .parquet files of rows (.gz too).")],
    base: Annotated[str, typer.Option("--base", "-b", help="Model folder or hub name to start from.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the run; the model is in its folder model.")],
    objective: Annotated[
        str,
        typer.Option(
            "--objective",
            "-O",
            help="elastic, espresso, espresso-released, 2dmse, matryoshka, matryoshka2d, adaptive-layer or starbucks; "
            "with options such as elastic:tune=0.3,dims=32/64/384.",
        ),
    ] = "elastic",
    loss: Annotated[
        str, typer.Option(help="infonce, cosent or angle; with options such as infonce:temperature=0.02.")
    ] = "infonce",
    columns: Annotated[
        list[str] | None, typer.Option(help=f"NAME=anchor, NAME=positive, NAME=negative, NAME=score; {AGAIN}.")
    ] = None,
    weight: Annotated[
        list[float] | None, typer.Option(help=f"How often batches come from a file; {AGAIN}. Default: its rows.")
    ] = None,
    skip_bad_rows: Annotated[bool, typer.Option("--skip-bad-rows", help="Leave bad rows out and count them.")] = False,
    dev: Annotated[Path | None, typer.Option(help="Scored pairs: the best model on them is the result.")] = None,
    steps: Annotated[int | None, typer.Option(help="Optimiser steps; default: as many as --epochs take.")] = None,
    epochs: Annotated[float, typer.Option(help="Passes over the data.")] = 1.0,
    batch: Annotated[int, typer.Option(help="Rows a step, over all processes.")] = 128,
    accumulate: Annotated[int, typer.Option(help="Batches a step.")] = 1,
    micro_batch: Annotated[int | None, typer.Option(help="Rows held in memory at a time (GradCache).")] = None,
    rate: Annotated[float, typer.Option(help="Learning rate.")] = 2e-5,
    exit_rate: Annotated[float, typer.Option(help="Learning rate of the exits.")] = 1e-3,
    embedding_rate: Annotated[
        float | None, typer.Option(help="Learning rate of the embeddings; default: that of the layers.")
    ] = None,
    optimizer: Annotated[
        str | None,
        typer.Option(help="adamw, or muon for the matrices of the layers; default: muon to distil on a GPU."),
    ] = None,
    warmup: Annotated[float, typer.Option(help="Share of the steps in which rates rise.")] = 0.1,
    schedule: Annotated[str, typer.Option(help="linear, cosine or constant.")] = "linear",
    decay: Annotated[float, typer.Option(help="Weight decay.")] = 0.01,
    clip: Annotated[float, typer.Option(help="Longest gradient.")] = 1.0,
    precision: Annotated[str | None, typer.Option(help="fp32, bf16 or fp16; default: bf16 on a GPU.")] = None,
    dropout: Annotated[bool, typer.Option(help="Use the model's dropout.")] = True,
    checkpointing: Annotated[bool, typer.Option("--checkpointing", help="Less memory, a third more time.")] = False,
    lora: Annotated[int | None, typer.Option(help="Train adapters of this rank, merged at the end.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Cut texts off after so many tokens.")] = None,
    prompt: Annotated[
        list[str] | None, typer.Option(help=f"Prompt name of anchors, then of positives, of negatives; {AGAIN}.")
    ] = None,
    dev_every: Annotated[int | None, typer.Option(help="Steps between dev scores.")] = None,
    patience: Annotated[int | None, typer.Option(help="Stop after so many dev scores without a better one.")] = None,
    save_every: Annotated[int, typer.Option(help="Steps between checkpoints.")] = 500,
    seed: Annotated[int, typer.Option(help="Of everything that is drawn.")] = 0,
    tracker: Annotated[list[str] | None, typer.Option(help=f"wandb, tensorboard, …; {AGAIN}.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    device: DeviceOption = None,
) -> None:
    """Train an encoder on pairs, triples, groups or scored pairs of texts."""
    given = dict(locals())
    need("demitasse train", TRAIN)
    from demitasse.cli.objective_names import LOSSES, OBJECTIVES, choice

    chosen = choice(objective, OBJECTIVES, "objective")
    options = demitasse.TrainOptions(
        loss=choice(loss, LOSSES, "loss"),
        prompts=tuple(prompt or ()),
        trackers=tuple(tracker or ()),
        **{name: given[name] for name in _SAME},
    )
    rows = demitasse.read_pairs(*data, columns=_mapping(columns), weights=weight, skip_bad_rows=skip_bad_rows)
    skipped = sum(source.skipped for source in rows.sources)
    if skipped:
        typer.echo(f"{skipped} bad rows were left out", err=True)
    held_out = None if dev is None else demitasse.read_pairs(dev)
    encoder = demitasse.load(base, device=device or _own_gpu())
    trained = demitasse.train(encoder, rows, chosen, out=out, options=options, dev=held_out, resume=resume)
    if os.environ.get("RANK", "0") != "0":
        return  # one of several processes: the first one speaks
    typer.echo(f"{out / 'model'}: {trained!r}, trained on {len(rows)} rows")
    for entry in trained.record.get("cuts") or ():
        typer.echo(f"  {entry['cut']:>8}  dev {entry['dev']['spearman']:.2f}")


_SAME = (
    *("steps", "epochs", "batch", "accumulate", "micro_batch", "rate", "exit_rate", "embedding_rate", "optimizer"),
    *("warmup", "schedule"),
    *("decay", "clip", "precision", "dropout", "checkpointing", "lora", "max_tokens", "dev_every", "patience"),
    *("save_every", "seed"),
)


def _own_gpu() -> str | None:
    """The GPU of this process, where torchrun has started several."""
    import torch

    rank = os.environ.get("LOCAL_RANK")
    return f"cuda:{rank}" if rank is not None and torch.cuda.is_available() else None


def _mapping(columns: list[str] | None) -> dict[str, Any] | None:
    if not columns:
        return None
    pairs = [entry.partition("=") for entry in columns]
    for (name, equals, target), entry in zip(pairs, columns, strict=True):
        if not (name and equals and target):
            raise DataError(f"--columns {entry!r} cannot be read; write NAME=anchor, NAME=positive or NAME=negative")
    return {name: target for name, _, target in pairs}
