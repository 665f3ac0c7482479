"""What commands write: output files checked before the work starts, JSON results, and warnings on stderr."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from demitasse.errors import DataError


def check_json(path: Path | None) -> None:
    """Refuse a --json file that cannot be written; - is stdout."""
    if path is not None and not is_stdout(path):
        _check_file("--json", path, ", or - for stdout")


def check_output(path: Path | None) -> None:
    """Refuse an --output file that cannot be written."""
    if path is not None:
        _check_file("--output", path)


def check_plot(path: Path | None) -> None:
    """Refuse a --plot file that cannot be written, or whose format is unknown."""
    if path is not None:
        from demitasse.display.charts import picture_kind

        picture_kind(path)
        _check_file("--plot", path)


def check_report(path: Path | None) -> None:
    """Refuse a --report file that cannot be written, or is not an .html file."""
    if path is not None:
        from demitasse.display.profile_page import check_page

        check_page(path)
        check_writable("--report", path)


def check_folder(option: str, path: Path | None) -> None:
    """Refuse a folder that cannot be written to or created."""
    if path is not None:
        if path.exists() and not path.is_dir():
            raise DataError(f"{option} {path} is a file; give a folder, which is created if needed")
        check_writable(option, path)


def check_model_folder(folder: Path, model: str | None, *, force: bool) -> None:
    """Refuse a folder that must not be replaced by a model made from `model`, before any work is done."""
    from demitasse.encoding.manifest import own_files
    from demitasse.host.replacing import check_replaceable

    check_replaceable(folder, own_files, None if model is None else Path(model), force=force)


def check_writable(option: str, path: Path) -> None:
    """Refuse a path where nothing can be written; nothing is left behind, not even its folder."""
    folder = path if path.is_dir() else next(parent for parent in path.absolute().parents if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as problem:
        raise DataError(
            f"{option} {path} cannot be written ({problem.strerror}); choose a path you can write to"
        ) from problem


def check_not_input(output: Path | None, source: Path | None) -> None:
    """Refuse an --output that would overwrite the file that --input reads."""
    if source is not None and output is not None and output.exists() and source.exists() and output.samefile(source):
        raise DataError(f"--output {output} is the file that --input reads; write the vectors to another file")


def _check_file(option: str, path: Path, alternative: str = "") -> None:
    if path.is_dir():
        raise DataError(f"{option} {path} is a folder; give a file name{alternative}")
    check_writable(option, path)


def is_stdout(path: Path | None) -> bool:
    """Whether `path` is -, which stands for stdout."""
    return str(path) == "-"


def write_json(result: dict[str, Any], path: Path | None) -> None:
    """Write a command's result to its --json file or stdout; without a path nothing is written."""
    from demitasse.host.json_files import json_text, save_result

    if path is None:
        return
    if is_stdout(path):
        typer.echo(json_text(result), nl=False)
    else:
        save_result(result, path)
        typer.echo(f"{path} written", err=True)


@contextmanager
def warnings_on_one_line() -> Iterator[None]:
    """Within the block, each warning is one line on stderr."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *_: typer.echo(f"warning: {message}", err=True)
        yield
