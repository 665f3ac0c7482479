"""Running the command line: what a command printed and how it ended, and how to start one that can be interrupted."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass

_INTERRUPTIBLE = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("demitasse", run_name="__main__", alter_sys=True)
"""


@dataclass
class Ran:
    code: int
    out: str
    err: str


class Terminal(io.TextIOWrapper):
    """A stdin that a person sits at."""

    def isatty(self) -> bool:
        return True


def interruptible(*arguments: object, setup: str = "") -> list[str]:
    """`demitasse …` with Ctrl-C working as in a terminal, after the lines of Python in `setup`.

    Processes started in the background of a shell, as the tests may be, ignore SIGINT, and so do their children.
    """
    return [sys.executable, "-c", setup + _INTERRUPTIBLE, *map(str, arguments)]
