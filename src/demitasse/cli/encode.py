"""`demitasse encode`: texts in, vectors out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from demitasse.cli.models import load_model
from demitasse.cli.options import REPEATABLE, VECTOR_KINDS, CutOption, DeviceOption, ModelOption, parse_names
from demitasse.cli.outputs import check_not_input, check_output
from demitasse.errors import DataError
from demitasse.host.live_texts import groups as live_groups
from demitasse.host.live_texts import is_live

if TYPE_CHECKING:
    from demitasse.data.parquet_vectors import RowVector
    from demitasse.data.text_rows import TextRow, TextRows
    from demitasse.encoding.vectors import Vectors


def encode(  # noqa: PLR0913 - options of a command, each named when used
    texts: Annotated[list[str] | None, typer.Argument(help="Texts to encode.")] = None,
    model: ModelOption = None,
    cut: CutOption = None,
    input: Annotated[
        Path | None,
        typer.Option(
            "--input",
            "-i",
            help="File with one text per line, or rows: .jsonl, .json, .csv, .tsv (.gz too), .parquet; - is stdin.",
        ),
    ] = None,
    column: Annotated[
        str | None,
        typer.Option(help="Column of --input with the texts; default: text, or the only one that holds strings."),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(help=f"Columns of --input to write beside each vector, such as id,title; {REPEATABLE}."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help=".npy, .jsonl, .jsonl.gz or .parquet file to write; default: stdout."),
    ] = None,
    prompt_name: Annotated[str | None, typer.Option(help="Name of one of the model's prompts, such as query.")] = None,
    prompt: Annotated[str | None, typer.Option(help="Text to put before each text, instead of a named prompt.")] = None,
    vectors: Annotated[
        str,
        typer.Option(
            help="Store vectors as float32, float16, int8 or binary (eight dims per byte).", autocompletion=VECTOR_KINDS
        ),
    ] = "float32",
    device: DeviceOption = None,
    max_seq_length: Annotated[
        int | None, typer.Option(help="Truncate texts to this many tokens; default: what the model takes.")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Cores to use; default: all of them.")] = None,
) -> None:
    """Encode texts from arguments, a file or stdin (one text per line) as JSON lines or a file of vectors."""
    from demitasse.cli.vector_files import VectorFile
    from demitasse.encoding.token_tally import TokenTally

    target = VectorFile(output, vectors, parse_names(keep))
    check_output(output)
    check_not_input(output, input)
    source = _rows(texts, input, column, target.keep)
    target.check_columns(source.column)
    encoder = load_model(model, cut, device, max_seq_length, threads)
    live = not texts and is_live(input or Path("-"))
    # What another program pipes in slowly comes out as it comes in.
    tally = TokenTally()
    encode_texts = partial(encoder.encode_iter, prompt_name=prompt_name, prompt=prompt, tally=tally)
    groups = (_with_vectors(encode_texts, group) for group in (live_groups(source.rows) if live else [source.rows]))
    count = target.write(groups, encoder, encoder.reader.prefix(prompt_name, prompt), source.types)
    if output is not None:
        kind = "" if vectors == "float32" else f"{vectors} "
        origin = "" if source.column is None else f"; the texts are the column {source.column!r}"
        typer.echo(f"{count} {kind}vectors of {encoder.full} written to {output}{origin}", err=True)
    if tally.truncated:
        were = f"{tally.truncated} of {tally.texts} texts {'was' if tally.truncated == 1 else 'were'}"
        typer.echo(f"{were} truncated to {encoder.max_seq_length} tokens", err=True)


def _with_vectors(encode: Callable[..., Iterator[Vectors]], rows: Iterable[TextRow]) -> Iterator[RowVector]:
    written, encoded = tee(rows)
    return zip(written, encode(row.text for row in encoded), strict=True)


def _rows(texts: list[str] | None, source: Path | None, column: str | None, keep: tuple[str, ...]) -> TextRows:
    from demitasse.data.text_rows import TextRow, TextRows, read_text_rows

    if texts and source is not None:
        raise DataError("texts were given both as arguments and by --input; use one of them")
    if (texts or source is None) and (column is not None or keep):
        raise DataError("--column and --keep were given without --input; name the file that has the columns")
    if texts:
        return TextRows(TextRow(text) for text in texts)
    if source is None and sys.stdin.isatty():
        raise DataError("there is nothing to encode; give texts as arguments, use --input FILE, or pipe lines to stdin")
    return read_text_rows(Path("-") if source is None else source, column, keep)
