"""What a server takes: how much in one request, how long it waits, how many connections it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from demitasse.arguments import check_fields
from demitasse.errors import DataError
from demitasse.serving.api_errors import too_large

CHARACTERS_PER_TOKEN = 4  # of texts that have not been tokenised


@dataclass(frozen=True)
class ServerLimits:
    """The limits of a server, each with the option of `demitasse serve` that sets it.

    >>> ServerLimits(max_inputs=32).max_bytes
    4194304
    """

    max_inputs: int = 2048  # in one request
    max_tokens: int = 300_000  # in one request; of texts, every four characters count as one
    max_bytes: int = 4 << 20  # of one request's body
    timeout_ms: float = 30_000  # from a request's arrival to its answer
    client_seconds: float = 20  # for a request's headers, again for its body, and without taking any of its reply
    idle_seconds: float = 75  # that an unused connection is kept; longer than the minute of most proxies
    drain_seconds: float = 30  # for requests that are being answered when the server is told to stop
    max_connections: int = 1000
    held_bytes: int = 256 << 20  # of the bodies of all requests together

    def __post_init__(self) -> None:
        check_fields(self)
        for name, value in vars(self).items():
            if value <= 0:
                raise DataError(f"{name} must be above 0, not {value}")

    def check_tokens(self, texts: Sequence[str] | Sequence[Sequence[int]], param: str) -> None:
        """Refuse more tokens than one request may have, by an estimate that costs nothing: nothing is tokenised yet."""
        size = sum(map(len, texts))
        count = size // CHARACTERS_PER_TOKEN if texts and isinstance(texts[0], str) else size
        if count > self.max_tokens:
            raise too_large(
                f"{param} has about {count:,} tokens and this server takes {self.max_tokens:,} in one request; "
                "send fewer texts at a time, or shorter ones",
                param,
            )
