"""Options that several commands share, and how their values are parsed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from demitasse.errors import DataError

REPEATABLE = "may be repeated"  # ends the help of an option that takes several values


def one_of(*values: str) -> Callable[[str], list[str]]:
    """What tab completion offers for an option that takes one of `values`.

    >>> one_of("float32", "float16", "int8")("flo")
    ['float32', 'float16']
    """
    return lambda incomplete: [value for value in values if value.startswith(incomplete)]


VECTOR_KINDS = one_of("float32", "float16", "int8", "binary")

# The model.
BUILT_IN_OR = "Model folder or hub name; default: the built-in model."
ModelArgument = Annotated[str | None, typer.Argument(help=BUILT_IN_OR)]
ModelOption = Annotated[str | None, typer.Option("--model", "-m", help=BUILT_IN_OR)]
RequiredModelArgument = Annotated[str, typer.Argument(help="Model folder or hub name.")]
BaseOption = Annotated[str, typer.Option("--base", "-b", help="Model folder or hub name to start from.")]
CutOption = Annotated[
    str | None, typer.Option("--cut", "-c", help="Layers x dims, such as 3x128; default: the whole model.")
]
LayersOption = Annotated[str | None, typer.Option(help="Layer counts, such as 0-6 or 1,3,6; default: every one.")]
DimsOption = Annotated[
    str | None, typer.Option(help="Dims, such as 32,128; default: 32, 64, 128, … and the full width.")
]
DeviceOption = Annotated[
    str | None,
    typer.Option(
        help="cpu, cuda or mps; default: the GPU if there is one.", autocompletion=one_of("cpu", "cuda", "mps")
    ),
]

# What quality is measured on.
TasksOption = Annotated[
    list[str] | None,
    typer.Option(
        "--tasks",
        "-t",
        help="File of scored pairs, folder in BEIR layout or with the seven STS sets, the name of one in --data, or "
        f"sample; {REPEATABLE}. Default: sample, which is not a benchmark.",
    ),
]
DataOption = Annotated[Path | None, typer.Option("--data", "-d", help="Folder in which to look for tasks by name.")]
TextsOption = Annotated[
    str | None,
    typer.Option(
        help="File of texts (lines, or a column text), without labels: quality is agreement with the full model."
    ),
]
SecondsOption = Annotated[float, typer.Option(help="Approximate time limit for timing, in seconds.")]

# Budgets and limits.
LatencyOption = Annotated[
    float | None, typer.Option("--latency-ms", help="Maximum p95 latency of one text, in milliseconds.")
]
SpeedOption = Annotated[
    float | None, typer.Option("--texts-per-second", help="Minimum throughput of batches, in texts per second.")
]
BytesOption = Annotated[float | None, typer.Option("--vector-bytes", help="Maximum size of a stored vector, in bytes.")]
SizeOption = Annotated[float | None, typer.Option("--model-mb", help="Maximum size of the weights, in megabytes.")]
QualityOption = Annotated[
    str | None,
    typer.Option("--min-quality", help="Minimum quality: 97% or 0.97 of the full model's, or points such as 75."),
]
PrecisionOption = Annotated[
    list[str] | None,
    typer.Option(
        "--precision",
        help=f"Only rows of this precision, such as int8; {REPEATABLE}.",
        autocompletion=one_of("fp32", "fp16", "bf16", "int8"),
    ),
]
VectorsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--vectors",
        help=f"Only rows that store vectors as float32, float16, int8 or binary; {REPEATABLE}.",
        autocompletion=VECTOR_KINDS,
    ),
]

# Outputs.
OutFolderOption = Annotated[Path, typer.Option("--out", "-o", help="Folder to write.")]
ForceOption = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Also write to a folder that has files of yours, which are kept, or that the model was loaded from.",
    ),
]
ProfileArgument = Annotated[Path, typer.Argument(help="Profile file, as written by demitasse measure --json.")]

_RANGE = re.compile(r"\s*(\d{1,5})\s*(?:-\s*(\d{1,5})\s*)?", re.ASCII)
_QUANTITY = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(%?)\s*", re.ASCII)


def parse_numbers(text: str | None, option: str) -> list[int] | None:
    """The whole numbers that `text` names, ends of ranges included; None if the option was not given.

    >>> parse_numbers("0-2,6", "--layers")
    [0, 1, 2, 6]
    """
    if text is None:
        return None
    matches = [_RANGE.fullmatch(part) for part in text.split(",")]
    ranges = [(int(match[1]), int(match[2] or match[1])) for match in matches if match]
    if len(ranges) < len(matches) or any(last < first for first, last in ranges):
        raise DataError(f"{option} {text!r} cannot be parsed; write numbers and ranges, such as 1,3,6 or 0-6")
    return sorted({number for first, last in ranges for number in range(first, last + 1)})


def parse_names(keep: list[str] | None) -> tuple[str, ...]:
    """The columns that --keep names, each once: with commas between them, or the option repeated.

    >>> parse_names(["id,title", "url"])
    ('id', 'title', 'url')
    """
    names = [name.strip() for given in keep or () for name in given.split(",")]
    if "" in names:
        raise DataError(f"--keep {','.join(keep or ())!r} has an empty name; write columns such as id,title")
    return tuple(dict.fromkeys(names))


def parse_min_quality(text: str | None) -> float | None:
    """A minimum quality as `Budget` takes it: a share up to 1, or points.

    >>> [parse_min_quality(text) for text in ("97%", "0.97", "75")]
    [0.97, 0.97, 75.0]
    """
    if text is None:
        return None
    number, percent = _parse_quantity(text, "--min-quality", "97%, 0.97 or points such as 75")
    if percent and number > 100:
        raise DataError(f"--min-quality {text!r} is more than the full model has; write at most 100%")
    return number / 100 if percent else number


def parse_share(text: str | None, option: str) -> float | None:
    """A share, with a percent sign or below 1; a bare 1 is refused, because it could mean either.

    >>> [parse_share(text, "--max-drop") for text in ("1%", "0.01", "0")]
    [0.01, 0.01, 0.0]
    """
    if text is None:
        return None
    number, percent = _parse_quantity(text, option, "1% or 0.01")
    if not percent and number >= 1:
        raise DataError(f"{option} {text!r} could be a share or a percentage; write {number:g}%, or a share below 1")
    return number / 100 if percent else number


def _parse_quantity(text: str, option: str, example: str) -> tuple[float, bool]:
    """A number, and whether a percent sign follows it."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise DataError(f"{option} {text!r} cannot be parsed; write {example}")
    return float(match[1]), bool(match[2])
