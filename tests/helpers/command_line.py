"""The `demitasse` command, run inside the tests or as a process that can be interrupted."""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from demitasse.cli.app import main

_INTERRUPTIBLE = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("demitasse", run_name="__main__", alter_sys=True)
"""


@dataclass
class CommandResult:
    """What a command printed and its exit code."""

    code: int
    out: str
    err: str


RunCommand = Callable[..., CommandResult]


class Terminal(io.TextIOWrapper):
    """A stdin that is a terminal, with nobody typing."""

    def isatty(self) -> bool:
        return True


def run_command(
    monkeypatch: pytest.MonkeyPatch,
    capture: pytest.CaptureFixture[bytes],
    *arguments: object,
    stdin: bytes | None = b"",
) -> CommandResult:
    """Run a command in this process; without `stdin` its stdin is a terminal."""
    monkeypatch.setattr(sys, "argv", ["demitasse", *map(str, arguments)])
    stream = Terminal(io.BytesIO()) if stdin is None else io.TextIOWrapper(io.BytesIO(stdin))
    monkeypatch.setattr(sys, "stdin", stream)
    handler = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as ended:
            main()
    finally:
        signal.signal(signal.SIGTERM, handler)
    out, err = capture.readouterr()
    code = ended.value.code
    return CommandResult(code if isinstance(code, int) else 0, out.decode(), err.decode())


def interruptible(*arguments: object, setup: str = "") -> list[str]:
    """The command line of `demitasse …` with Ctrl-C working as in a terminal, after the lines of Python in `setup`.

    Processes started in the background of a shell, as the tests may be, ignore SIGINT, and so do their children.
    """
    return [sys.executable, "-c", setup + _INTERRUPTIBLE, *map(str, arguments)]
