"""Errors of the API, in the shape that OpenAI's clients read.

    {"error": {"message": "…", "type": "invalid_request_error", "param": "dimensions", "code": null}}

A message is one sentence: what was given, what is allowed, what to do. It goes to the client alone and is never logged,
since it may quote the request.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from demitasse.serving.replies import JSON, Reply

# What OpenAI calls the errors of a status; all other statuses below 500 are invalid requests.
_TYPES = {429: "rate_limit_error"}


class ApiError(Exception):
    """A request that is refused, with the status that says why."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Sequence[tuple[str, str]] = (),
        offers: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.code = status, message, param, code
        self.headers, self.offers = tuple(headers), offers

    def reply(self) -> Reply:
        """The error as a client sees it."""
        kind = "server_error" if self.status >= 500 else _TYPES.get(self.status, "invalid_request_error")
        error: dict[str, Any] = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        if self.offers is not None:
            error["offers"] = dict(self.offers)
        # ASCII alone: a message may quote half a surrogate pair, which has no UTF-8 form.
        return Reply(json.dumps({"error": error}).encode(), self.status, (JSON, *self.headers))


def bad_request(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    """A request that cannot be read or asks for what does not exist."""
    return ApiError(400, message, param=param, code=code)


def too_large(message: str, param: str | None = None) -> ApiError:
    """A request that is larger than the server takes."""
    return ApiError(413, message, param=param, code="request_too_large")


def not_ready(message: str) -> ApiError:
    """A server that is still loading its model, or is about to stop."""
    return ApiError(503, message, code="not_ready", headers=(("retry-after", "1"),))


def internal_error() -> ApiError:
    """A mistake of ours; what happened is in the log."""
    return ApiError(500, "the server made a mistake; its log says where, under the request id of this reply")
