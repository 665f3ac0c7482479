"""The arguments and options that several commands have, with the words that explain them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

AGAIN = "give it again for each further one"
ModelArgument = Annotated[str | None, typer.Argument(help="Model folder or hub name; default: the built-in model.")]
TasksOption = Annotated[
    list[str] | None,
    typer.Option(
        "--tasks",
        "-t",
        help="File of scored pairs, folder in BEIR layout or with the seven STS sets, a name of one in --data, or "
        f"sample; {AGAIN}. Default: sample, which is no benchmark.",
    ),
]
DataOption = Annotated[Path | None, typer.Option("--data", "-d", help="Folder in which names of tasks are found.")]
LayersOption = Annotated[str | None, typer.Option(help="Such as 0-6 or 1,3,6; default: every number of layers.")]
DimsOption = Annotated[str | None, typer.Option(help="Such as 32,128; default: 32, 64, 128, … and all.")]
DeviceOption = Annotated[str | None, typer.Option(help="cpu, cuda or mps; default: the GPU if there is one.")]
