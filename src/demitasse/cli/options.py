"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from demitasse.errors import DataError

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


LatencyOption = Annotated[float | None, typer.Option("--latency-ms", help="Most p95 milliseconds of one text.")]
SpeedOption = Annotated[float | None, typer.Option("--texts-per-second", help="Least texts a second, in batches.")]
BytesOption = Annotated[float | None, typer.Option("--vector-bytes", help="Most bytes a vector.")]
SizeOption = Annotated[float | None, typer.Option("--model-mb", help="Most megabytes of weights.")]
QualityOption = Annotated[
    str | None,
    typer.Option("--min-quality", help="Least quality: 97% or 0.97 of the full model's, or points such as 75."),
]
PrecisionOption = Annotated[
    list[str] | None,
    typer.Option("--precision", help=f"Only rows of this precision; {AGAIN}."),
]
VectorsOption = Annotated[
    list[str] | None,
    typer.Option("--vectors", help="Only rows that keep vectors so (float32, float16, int8, binary); again for more."),
]
_NUMBER = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(%?)\s*", re.ASCII)


def least_quality(text: str | None) -> float | None:
    """A least quality as `Budget` takes it: a share up to 1, or points.

    >>> [least_quality(text) for text in ("97%", "0.97", "75")]
    [0.97, 0.97, 75.0]
    """
    if text is None:
        return None
    number, percent = _read(text, "--min-quality", "97%, 0.97 or points such as 75")
    if percent and number > 100:
        raise DataError(f"--min-quality {text!r} is more than the full model has; write at most 100%")
    return number / 100 if percent else number


def share(text: str | None, option: str) -> float | None:
    """A share, with a percent sign or below 1; a bare 1 is refused, for it could mean either.

    >>> [share(text, "--max-drop") for text in ("1%", "0.01", "0")]
    [0.01, 0.01, 0.0]
    """
    if text is None:
        return None
    number, percent = _read(text, option, "1% or 0.01")
    if not percent and number >= 1:
        raise DataError(f"{option} {text!r} could be a share or percent; write {number:g}% or a share below 1")
    return number / 100 if percent else number


def _read(text: str, option: str, example: str) -> tuple[float, bool]:
    found = _NUMBER.fullmatch(text)
    if found is None:
        raise DataError(f"{option} {text!r} cannot be read; write {example}")
    return float(found[1]), bool(found[2])
