"""`demitasse train`: the options of `demitasse.train`, one flag each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

import demitasse
from demitasse.cli.options import REPEATABLE, BaseOption, DeviceOption, one_of
from demitasse.errors import DataError
from demitasse.extras import LORA, PARQUET, TRAIN, need

# In the order of the help; the table of them in objectives/names.py needs the objectives themselves.
_OBJECTIVES = (
    "elastic",
    "aligned",
    "espresso",
    "espresso-released",
    "2dmse",
    "matryoshka",
    "matryoshka2d",
    "adaptive-layer",
    "starbucks",
)


def train(  # noqa: PLR0913 - options of a command, each named when used
    data: Annotated[list[Path], typer.Argument(help="Training files: .jsonl, .csv, .tsv, .txt or .parquet (.gz too).")],
    base: BaseOption,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the run; the model goes to model/ inside it.")],
    objective: Annotated[
        str,
        typer.Option(
            "--objective",
            "-O",
            help=f"{', '.join(_OBJECTIVES[:-1])} or {_OBJECTIVES[-1]}, "
            "with options if needed: elastic:tune=0.3,dims=32/64/384, aligned:teachers=A+B.",
            autocompletion=one_of(*_OBJECTIVES),
        ),
    ] = "elastic",
    loss: Annotated[
        str,
        typer.Option(
            help="infonce, cosent or angle, with options if needed: infonce:temperature=0.02.",
            autocompletion=one_of("infonce", "cosent", "angle"),
        ),
    ] = "infonce",
    columns: Annotated[
        list[str] | None,
        typer.Option(help=f"What a column is: NAME=anchor, =positive, =negative or =score; {REPEATABLE}."),
    ] = None,
    weight: Annotated[
        list[float] | None,
        typer.Option(help="How often to draw batches from a file; give one weight per file. Default: its row count."),
    ] = None,
    role: Annotated[
        list[str] | None,
        typer.Option(
            help="What a file's columns are to teachers' prompts: query/document, sentence or ''; give one per file.",
            autocompletion=one_of("query/document", "sentence"),
        ),
    ] = None,
    skip_bad_rows: Annotated[bool, typer.Option("--skip-bad-rows", help="Skip bad rows and report how many.")] = False,
    dev: Annotated[
        Path | None, typer.Option(help="Scored pairs; the model that scores best on them is the result.")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Optimizer steps; default: from --epochs.")] = None,
    epochs: Annotated[float, typer.Option(help="Passes over the data.")] = 1.0,
    batch: Annotated[int, typer.Option(help="Rows per batch, over all processes.")] = 128,
    batch_tokens: Annotated[
        int | None, typer.Option(help="Tokens per batch, about, at most: files of longer texts have smaller batches.")
    ] = None,
    accumulate: Annotated[int, typer.Option(help="Batches per step (gradient accumulation).")] = 1,
    micro_batch: Annotated[int | None, typer.Option(help="Rows in memory at a time (GradCache).")] = None,
    rate: Annotated[float, typer.Option(help="Learning rate.")] = 2e-5,
    exit_rate: Annotated[float, typer.Option(help="Learning rate of the exits.")] = 1e-3,
    embedding_rate: Annotated[
        float | None, typer.Option(help="Learning rate of the embeddings; default: --rate.")
    ] = None,
    optimizer: Annotated[
        str | None,
        typer.Option(
            help="adamw, or muon for the weight matrices; default: muon when distilling on a GPU.",
            autocompletion=one_of("adamw", "muon"),
        ),
    ] = None,
    warmup: Annotated[float, typer.Option(help="Share of the steps used for warm-up.")] = 0.1,
    schedule: Annotated[
        str,
        typer.Option(
            help="Learning-rate schedule: linear, cosine or constant.",
            autocompletion=one_of("linear", "cosine", "constant"),
        ),
    ] = "linear",
    decay: Annotated[float, typer.Option(help="Weight decay.")] = 0.01,
    clip: Annotated[float, typer.Option(help="Gradient-norm clip.")] = 1.0,
    precision: Annotated[
        str | None,
        typer.Option(help="fp32, bf16 or fp16; default: bf16 on a GPU.", autocompletion=one_of("fp32", "bf16", "fp16")),
    ] = None,
    dropout: Annotated[bool, typer.Option(help="Use the model's dropout.")] = True,
    checkpointing: Annotated[
        bool, typer.Option("--checkpointing", help="Gradient checkpointing: less memory, a third more time.")
    ] = False,
    lora: Annotated[int | None, typer.Option(help="Train LoRA adapters of this rank, merged at the end.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Truncate texts to this many tokens.")] = None,
    prompt_name: Annotated[
        list[str] | None,
        typer.Option(help=f"Prompt name for anchors, then for positives, then for negatives; {REPEATABLE}."),
    ] = None,
    vectors: Annotated[
        Path | None, typer.Option(help="Folder to keep teachers' vectors in, for other runs too; default: in --out.")
    ] = None,
    dev_every: Annotated[int | None, typer.Option(help="Steps between dev scores.")] = None,
    patience: Annotated[int | None, typer.Option(help="Stop after this many dev scores without improvement.")] = None,
    save_every: Annotated[int, typer.Option(help="Steps between checkpoints, at most.")] = 500,
    save_minutes: Annotated[
        float, typer.Option(help="Minutes between checkpoints, at most: what a crash can cost.")
    ] = 5.0,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    tracker: Annotated[
        list[str] | None, typer.Option(help=f"Experiment tracker: wandb, tensorboard, …; {REPEATABLE}.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --out.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also write to a folder that has files of yours, which are kept.")
    ] = False,
    device: DeviceOption = None,
) -> None:
    """Train a model on pairs, triples, groups or scored pairs of texts."""
    given = dict(locals())
    parquet = any(file is not None and file.suffix == ".parquet" for file in (*data, dev))
    need("demitasse train", TRAIN, *[LORA] * bool(lora), *[PARQUET] * parquet)
    from demitasse.objectives.names import LOSSES, OBJECTIVES, choice
    from demitasse.training.run_folder import RunFolder

    chosen = choice(objective, OBJECTIVES, "objective")
    options = demitasse.TrainOptions(
        loss=choice(loss, LOSSES, "loss"),
        prompts=tuple(prompt_name or ()),
        trackers=tuple(tracker or ()),
        vectors=None if vectors is None else str(vectors),
        **{name: given[name] for name in _PASSED_ON},
    )
    first = os.environ.get("RANK", "0") == "0"
    RunFolder(out, writes=first).check(resume=resume, force=force)  # before the data is read
    pairs = demitasse.read_pairs(
        *data, columns=_parse_columns(columns), weights=weight, roles=role, skip_bad_rows=skip_bad_rows
    )
    skipped = sum(source.skipped for source in pairs.sources)
    if skipped:
        typer.echo(f"{skipped} bad rows were skipped", err=True)
    dev_pairs = None if dev is None else demitasse.read_pairs(dev)
    encoder = demitasse.load(base, device=device or _process_gpu())
    trained = demitasse.train(
        encoder, pairs, chosen, out=out, options=options, dev=dev_pairs, resume=resume, force=force
    )
    if not first:
        return  # of several processes, only the first one prints
    typer.echo(f"{out / 'model'}: {trained!r}, trained on {len(pairs)} rows")
    for entry in trained.record.get("cuts") or ():
        typer.echo(f"  {entry['cut']:>8}  dev {entry['dev']['spearman']:.2f}")


_PASSED_ON = (  # options of the same name and meaning in `TrainOptions`
    *(
        "steps",
        "epochs",
        "batch",
        "batch_tokens",
        "accumulate",
        "micro_batch",
        "rate",
        "exit_rate",
        "embedding_rate",
        "optimizer",
    ),
    *("warmup", "schedule"),
    *("decay", "clip", "precision", "dropout", "checkpointing", "lora", "max_tokens", "dev_every", "patience"),
    *("save_every", "save_minutes", "seed"),
)


def _process_gpu() -> str | None:
    """The GPU of this process, if torchrun started several."""
    import torch

    rank = os.environ.get("LOCAL_RANK")
    return f"cuda:{rank}" if rank is not None and torch.cuda.is_available() else None


def _parse_columns(columns: list[str] | None) -> dict[str, str] | None:
    if not columns:
        return None
    mapping = {}
    for entry in columns:
        name, _, target = entry.partition("=")
        if not (name and target):
            raise DataError(f"--columns {entry!r} cannot be parsed; write NAME=anchor, NAME=positive or NAME=negative")
        mapping[name] = target
    return mapping
