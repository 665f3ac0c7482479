"""Connections that hold nothing: one that is slow to ask, or slow to take its answer, is closed.

uvicorn limits neither how long a client takes for its headers, nor how many there are, nor how long it leaves its
answer unread. This adds that to its connections, whichever parser they use, with one look at each of them per second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from demitasse.serving.api_errors import ApiError
from demitasse.serving.limits import ServerLimits

try:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as Protocol
except ImportError:  # slower, but always there
    from uvicorn.protocols.http.h11_impl import H11Protocol as Protocol  # type: ignore[assignment]

HEADER_BYTES = 64 << 10
_DRIPPING = 10  # times as long as without taking anything may a client take for an answer that it takes slowly


class Connection(Protocol):
    """A connection that knows since when it waits for its client, and for what."""

    limits = ServerLimits()  # set by `connection_class`

    def __init__(self, config: Any, server_state: Any, app_state: dict[str, Any], _loop: Any = None) -> None:
        super().__init__(config, server_state, app_state | {"connection": self}, _loop)
        self.lost = False
        self._task: asyncio.Task[Any] | None = None
        self._asking_since: float | None = None  # a request has begun, or nothing has ever come
        self._header_bytes = 0
        self._unread = 0  # bytes of an answer that the client had not taken at the last look
        self._stuck_since = self._unread_since = 0.0  # since when none were taken, and since when there are any

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, unless there are too many."""
        super().connection_made(transport)
        self._asking_since = self.loop.time()
        if len(self.connections) > self.limits.max_connections:
            self._refuse(ApiError(503, "too many connections; try again", headers=(("retry-after", "1"),)))

    def data_received(self, data: bytes) -> None:
        """Read on; headers that never end are cut off."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._asking_since, self._header_bytes = None, 0
            return
        if self._asking_since is None:
            self._asking_since = self.loop.time()
        self._header_bytes += len(data)
        if self._header_bytes > HEADER_BYTES:
            self._refuse(ApiError(431, f"the headers have more than {HEADER_BYTES:,} bytes"))

    def send_400_response(self, msg: str) -> None:
        """What is not HTTP is refused in the shape of all other refusals."""
        self._refuse(ApiError(400, "this is not a request of HTTP/1.1"))

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has left: whatever is computed for it is dropped."""
        self.lost = True
        super().connection_lost(exc)
        self.app_state = {}  # which holds this connection, and would keep it until the next look for such circles
        if self._task is not None:
            self._task.cancel()

    def serves(self, task: asyncio.Task[Any] | None) -> None:
        """The task that answers a request of this connection, to be cancelled if the client leaves."""
        self._task = task
        if task is None:
            self._asking_since, self._header_bytes = None, 0
        elif self.lost:
            task.cancel()

    def look(self, now: float) -> None:
        """Close a connection whose client takes too long."""
        if self._asking_since is not None and now - self._asking_since > self.limits.client_seconds:
            self._refuse(ApiError(408, f"no request came within {self.limits.client_seconds:g} seconds"))
        unread = self.transport.get_write_buffer_size()
        if not (unread and self._unread):
            self._unread_since = now
        if not unread or unread != self._unread:
            self._stuck_since = now
        self._unread = unread
        longest = self.limits.client_seconds
        if now - self._stuck_since > longest or now - self._unread_since > _DRIPPING * longest:
            self.transport.abort()  # not close, which would wait until the rest is taken

    def _refuse(self, refused: ApiError) -> None:
        reply = refused.reply()
        if not self.transport.is_closing():
            head = f"HTTP/1.1 {reply.status} \r\ncontent-type: application/json\r\nconnection: close\r\n"
            self.transport.write(f"{head}content-length: {len(reply.body)}\r\n\r\n".encode() + reply.body)
            self.transport.close()


def connection_class(limits: ServerLimits) -> type[Connection]:
    """Connections with these limits."""
    return type("LimitedConnection", (Connection,), {"limits": limits})


def look_at_all(connections: Iterable[Any], now: float) -> None:
    """Close those of `connections` whose clients take too long."""
    for connection in list(connections):
        connection.look(now)
