"""Why a request gets no vectors."""

from __future__ import annotations

from demitasse.errors import DataError, DemitasseError


class QueueFull(DemitasseError, RuntimeError):  # noqa: N818 - it names what is wrong
    """More is waiting than the server may hold, or than it can compute in time; try again after `retry_after` s."""

    def __init__(self, why: str, retry_after: float) -> None:
        super().__init__(f"{why}; try again in {retry_after:.1f} seconds")
        self.retry_after = retry_after


class DeadlineMissed(DemitasseError, TimeoutError):  # noqa: N818 - it names what is wrong
    """The answer would have come after the request's timeout."""


class ShuttingDown(DemitasseError, RuntimeError):  # noqa: N818 - it names what is wrong
    """The server is stopping and takes no new requests."""


class TextTooLong(DataError):  # noqa: N818 - it names what is wrong
    """A text has more tokens than the model takes, and was not to be truncated."""

    def __init__(self, index: int, tokens: int, limit: int) -> None:
        super().__init__(
            f"text {index} has {tokens} tokens and the model takes {limit}; shorten it, or allow it to be truncated"
        )
        self.index, self.tokens, self.limit = index, tokens, limit


class TooManyTokens(DataError):  # noqa: N818 - it names what is wrong
    """One request has more tokens than the whole queue may hold."""

    def __init__(self, tokens: int, limit: int) -> None:
        super().__init__(
            f"the request has about {tokens} tokens and the server takes {limit} at a time; send fewer texts"
        )
        self.tokens, self.limit = tokens, limit
