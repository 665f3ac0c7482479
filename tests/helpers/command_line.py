"""What a command printed and how it ended."""

from __future__ import annotations

import io
from dataclasses import dataclass


@dataclass
class Ran:
    code: int
    out: str
    err: str


class Terminal(io.TextIOWrapper):
    """A stdin that a person sits at."""

    def isatty(self) -> bool:
        return True
