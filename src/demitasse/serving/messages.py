"""What goes into an engine and what comes out, and its options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from demitasse.arguments import check_fields, number, whole
from demitasse.cut import Cut
from demitasse.errors import DataError, shown
from demitasse.host.machine import checked_threads
from demitasse.planning.profile import Profile

Kind = Literal["query", "document"] | None  # whose prompt is put before a text; `None` is the model's default


@dataclass(frozen=True)
class Asked:
    """What one request asks for."""

    texts: Sequence[str] | Sequence[Sequence[int]]  # or token ids of the model's tokenizer, without special tokens
    cut: Cut
    kind: Kind = None
    min_layers: int | None = None  # as few layers as the client accepts when the server is busy
    timeout: float | None = None  # seconds after which an answer is of no use
    truncate: bool = True  # a text that is too long; otherwise it is refused


@dataclass(frozen=True)
class Times:
    """How many seconds a request spent where."""

    tokenize: float
    queue: float
    compute: float
    total: float


@dataclass(frozen=True, eq=False)
class Answer:
    """What one request gets."""

    vectors: npt.NDArray[np.float32]  # (texts, dims), unit length
    cut: Cut  # that was used
    tokens: int  # that the model was given, special tokens included
    truncated: int  # texts
    times: Times


@dataclass(frozen=True)
class EngineOptions:
    """How much an engine takes, how much it runs at a time, and whether it sheds layers."""

    max_batch_tokens: int | None = None  # chosen for the device if left out
    max_queue_tokens: int = 500_000
    max_queue_seconds: float = 30.0
    shed: bool = False  # queries get fewer layers when the server is busy
    floor: int | None = None  # layers that shed queries keep; a third of the model's if left out
    shed_seconds: float = 0.25  # within which queries without a timeout should be answered
    threads: int | None = None  # batches at a time; on the CPU as many as there are cores
    profile: Profile | None = None  # of the model, from which costs are guessed; timed at the start if left out

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("max_batch_tokens", "max_queue_tokens"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name), least=1)
        for name in ("max_queue_seconds", "shed_seconds"):
            number(name, getattr(self, name), above=0)
        if self.threads is not None:
            checked_threads(self.threads)
        if self.floor is not None:
            whole("floor", self.floor, least=0)


def check_texts(texts: Sequence[object]) -> None:
    """Refuse what is neither all strings nor all lists of token ids.

    >>> check_texts(["a", [7]])
    Traceback (most recent call last):
    demitasse.errors.DataError: text 1 is [7]; send strings, or lists of token ids
    """
    wanted = str if texts and isinstance(texts[0], str) else list | tuple
    for index, text in enumerate(texts):
        if not isinstance(text, wanted):
            raise DataError(f"text {index} is {shown(text)}; send strings, or lists of token ids")


def estimated_tokens(text: str | Sequence[int]) -> int:
    """About how many tokens a text has, without reading it.

    >>> estimated_tokens("a ristretto"), estimated_tokens([7, 8]), estimated_tokens("東京")
    (4, 4, 4)
    """
    if not isinstance(text, str):
        return len(text) + 2
    return (len(text) // 4 if text.isascii() else len(text)) + 2
