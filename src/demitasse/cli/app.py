"""The `demitasse` command: its subcommands, and how errors end it.

Results go to stdout, progress and errors to stderr; a bad option or input ends with exit code 2.
"""

from __future__ import annotations

import io
import signal
import sys
from typing import Annotated

import typer

import demitasse
from demitasse.cli.check import check
from demitasse.cli.cut import cut_model
from demitasse.cli.demo import demo
from demitasse.cli.embed import embed
from demitasse.cli.encode import encode
from demitasse.cli.eval import evaluate
from demitasse.cli.export import export
from demitasse.cli.fit import fit
from demitasse.cli.index import index
from demitasse.cli.info import info
from demitasse.cli.measure import measure
from demitasse.cli.plan import plan
from demitasse.cli.report import report
from demitasse.cli.search import search
from demitasse.cli.serve import serve
from demitasse.cli.train import train
from demitasse.cli.web import web
from demitasse.errors import DemitasseError, TrainingStopped, file_reason
from demitasse.host.full_disk import is_full

app = typer.Typer(
    name="demitasse",
    help="One sentence-embedding model, cut to any size.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(encode)
app.command()(embed)
app.command()(fit)
app.command()(train)
app.command("eval")(evaluate)
app.command()(measure)
app.command()(plan)
app.command()(check)
app.command()(report)
app.command()(info)
app.command("cut")(cut_model)
app.command()(export)
app.add_typer(index, name="index")
app.command()(search)
app.command()(serve)
app.command()(web)
app.command()(demo)


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False) -> None:
    if version:
        typer.echo(f"demitasse {demitasse.__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line."""
    # SIGTERM cleans up as Ctrl-C does.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    for stream in (sys.stdout, sys.stderr):  # the name of a model or a file need not be valid Unicode
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
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
    except OSError as problem:  # a folder that disappeared, a disk that fails
        typer.echo(f"error: {_sentence(problem)}", err=True)
        sys.exit(2)


def _sentence(problem: OSError) -> str:
    why = file_reason(problem)
    if is_full(problem):
        # Files are named where they are written, so that this is `demitasse encode … > vectors.jsonl`.
        return f"cannot write {problem.filename or 'to stdout'} ({why}); make room on that disk, or write to another"
    return f"cannot read or write {problem.filename or 'a file'} ({why}); check the disk and run the command again"
