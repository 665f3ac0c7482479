"""`ServeOptions`: all that a worker needs to know, in one value that can be sent to another process."""

from __future__ import annotations

from dataclasses import dataclass, field

from demitasse.serving.engine import EngineOptions
from demitasse.serving.keys import Keys
from demitasse.serving.limits import ServerLimits


@dataclass(frozen=True)
class ServeOptions:
    """What to serve, to whom, and within which limits."""

    model: str | None = None  # folder or hub name; the built-in model if left out
    names: tuple[str, ...] = ()  # that requests may call it; the first is in replies
    device: str | None = None
    max_seq_length: int | None = None
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    origins: tuple[str, ...] = ()  # of web pages that may use it
    log_requests: bool = False
    keys: Keys = field(default_factory=Keys)
    limits: ServerLimits = field(default_factory=ServerLimits)
    engine: EngineOptions = field(default_factory=EngineOptions)
