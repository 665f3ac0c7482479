"""The command line: results on stdout, progress and errors on stderr, exit 2 for a bad option or input."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from itertools import islice, tee
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import demitasse
from demitasse.cli.check import check
from demitasse.cli.eval import evaluate
from demitasse.cli.measure import check_report, measure
from demitasse.cli.options import DeviceOption, ModelArgument
from demitasse.cli.plan import plan
from demitasse.cli.report import report
from demitasse.cli.train import train
from demitasse.cli.vector_files import check_format, write_vectors
from demitasse.cut import Cut
from demitasse.errors import DataError, DemitasseError, TrainingStopped
from demitasse.host.text_lines import read_lines

if TYPE_CHECKING:
    from demitasse.encoding.encoder import Encoder

app = typer.Typer(
    name="demitasse",
    help="One sentence-embedding model, cut to any size.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

ModelOption = Annotated[
    str | None, typer.Option("--model", "-m", help="Model folder or hub name; default: the built-in model.")
]
CutOption = Annotated[str | None, typer.Option("--cut", "-c", help="Layers x dims, such as 3x128; default: all.")]
OutOption = Annotated[Path, typer.Option("--out", "-o", help="Folder to write.")]


@app.command()
def encode(  # noqa: PLR0913 - options of a command, each named when used
    texts: Annotated[list[str] | None, typer.Argument(help="Texts to encode.")] = None,
    model: ModelOption = None,
    cut: CutOption = None,
    input: Annotated[
        Path | None, typer.Option("--input", "-i", help="File with a text a line (.gz too); - is stdin.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A .npy or .jsonl file; default: stdout.")
    ] = None,
    prompt: Annotated[str | None, typer.Option(help="One of the model's prompts, such as query.")] = None,
    vectors: Annotated[
        str, typer.Option(help="How vectors are kept: float32, float16, int8 or binary (eight dims in a byte).")
    ] = "float32",
    device: DeviceOption = None,
) -> None:
    """Encode texts: arguments, a file or stdin, one text a line, as JSON lines or a .npy file."""
    check_format(output, vectors)
    source = _texts(texts, input)
    encoder = _load(model, cut, device)
    shown, encoded = tee(source)
    rows = encoder.encode_iter(encoded, prompt=prompt)
    count = write_vectors(zip(shown, rows, strict=True), encoder.full.dims, output, vectors)
    if output is not None:
        kept = "" if vectors == "float32" else f"{vectors} "
        typer.echo(f"{count} {kept}vectors of {encoder.full} written to {output}", err=True)


@app.command()
def fit(  # noqa: PLR0913
    sentences: Annotated[Path, typer.Argument(help="File with a sentence a line (.gz too); - is stdin.")],
    base: Annotated[str, typer.Option("--base", "-b", help="Model folder or hub name to start from.")],
    out: OutOption,
    limit: Annotated[int | None, typer.Option(min=1, help="Read at most this many sentences.")] = None,
    order: Annotated[bool, typer.Option(help="Turn the space so that fewer dims lose less.")] = True,
    refine: Annotated[bool, typer.Option(help="Distil similarities into the exits after the closed form.")] = True,
    device: DeviceOption = None,
) -> None:
    """Fit an exit at every depth from unlabelled sentences, so that shallow cuts give good vectors."""
    lines = islice(read_lines(sentences), limit)  # never all of them at once: fitting takes a stream
    encoder = _load(base, None, device)
    fitted = demitasse.fit_exits(encoder, lines, order=order, refine=refine)
    fitted.save(out)
    typer.echo(f"{out}: {fitted!r}, fitted on {fitted.record['data']['sentences']} sentences")
    typer.echo("on held-out sentences, against the full model:")
    for entry in fitted.record["cuts"]:
        quality = entry["held_out"]
        typer.echo(
            f"  {entry['cut']:>8}  cosine {quality['cosine']:.3f}  "
            f"correlation of similarities {quality['similarity']:.3f}"
        )


app.command()(train)
app.command("eval")(evaluate)
app.command()(measure)
app.command()(plan)
app.command()(check)
app.command()(report)


@app.command()
def info(
    model: ModelArgument = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, for machines.")] = False,
) -> None:
    """Show a model's layers, dims and exits, and what each cut weighs."""
    encoder = _load(model, None, "cpu")
    from demitasse.display.model_table import describe, size_table

    facts = describe(encoder)
    typer.echo(json.dumps(facts, indent=2, ensure_ascii=False) if as_json else size_table(facts))


@app.command("cut")
def cut_(
    model: Annotated[str, typer.Argument(help="Model folder or hub name.")],
    cut: Annotated[str, typer.Argument(help="Layers x dims, such as 3x128.")],
    out: OutOption,
) -> None:
    """Save a smaller model, which plain sentence-transformers opens too."""
    encoder = _load(model, cut, "cpu")
    encoder.save(out)
    written = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    typer.echo(f"{out}: {encoder!r}, {written / 1e6:.1f} MB")


@app.command()
def export(
    model: Annotated[str, typer.Argument(help="Model folder or hub name.")],
    out: OutOption,
    cut: CutOption = None,
    format: Annotated[
        str, typer.Option("--format", "-f", help="blocks, blocks-int8, onnx, onnx-int8 or sentence-transformers.")
    ] = "blocks-int8",
    sentences: Annotated[
        Path | None, typer.Option(help="File with a sentence a line: sets the scales of int8, and what is compared.")
    ] = None,
) -> None:
    """Write a model that runs without torch: blocks for every cut, or one ONNX graph of one cut."""
    lines = None if sentences is None else list(read_lines(sentences))
    typer.echo(demitasse.export(_load(model, cut, "cpu"), out, format=format, sentences=lines))


@app.command()
def demo(
    query: Annotated[list[str] | None, typer.Argument(help="Your own questions to search for.")] = None,
    report: Annotated[Path, typer.Option(help=".html file to write.")] = Path("demitasse-report.html"),
) -> None:
    """See it work on the built-in model: a search at several cuts, what each costs here, the best for a budget."""
    from demitasse.cli.demo import show

    check_report(report)
    show(query, page=report)


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False) -> None:
    if version:
        typer.echo(f"demitasse {demitasse.__version__}")
        raise typer.Exit


def _load(model: str | None, cut: str | None, device: str | None) -> Encoder:
    wanted = None if cut is None else Cut.parse(cut)  # a misspelt cut should not wait for the model
    encoder = demitasse.load(model, device=device)
    return encoder if wanted is None else encoder.cut(*wanted)


def _texts(texts: list[str] | None, source: Path | None) -> Iterator[str]:
    if texts and source is not None:
        raise DataError("texts were given both as arguments and by --input; use one of them")
    if texts:
        return iter(texts)
    if source is None and sys.stdin.isatty():
        raise DataError("there is nothing to encode; give texts as arguments, --input FILE, or pipe lines to stdin")
    return read_lines(Path("-") if source is None else source)


def main() -> None:
    """Run the command line."""
    # A polite kill cleans up as Ctrl-C does.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        app()
    except TrainingStopped as stopped:
        typer.echo(str(stopped), err=True)
        sys.exit(130)
    except DemitasseError as problem:
        typer.echo(f"error: {problem}", err=True)
        sys.exit(2)
    except BrokenPipeError:  # `demitasse encode … | head`
        sys.stderr.close()
        sys.exit(141)
    except OSError as problem:  # a full disk, a vanished folder
        typer.echo(f"error: cannot read or write {problem.filename or 'a file'} ({problem.strerror})", err=True)
        sys.exit(2)
