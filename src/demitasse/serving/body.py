"""Reading a request's body: bounded in bytes and in time while it arrives, and parsed without surprises."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from demitasse.serving.api_errors import ApiError, bad_request, too_large

Receive = Callable[[], Awaitable[Any]]
_DISCARDED = 4  # times the limit; a client that sends more of a refused body is cut off


class ClientGone(Exception):  # noqa: N818 - it names what happened
    """The client closed its connection; there is nobody to answer."""


@dataclass
class BodyRoom:
    """How many bytes of bodies the requests of this process hold, so that many large ones do not fill its memory."""

    most: int
    taken: int = 0


@dataclass
class BodyReader:
    """The body of one request, which is read once."""

    receive: Receive
    headers: Mapping[bytes, bytes]
    max_bytes: int
    seconds: float  # for the whole body
    room: BodyRoom
    ended: bool = False
    size: int = 0

    async def read(self) -> bytes:
        """The whole body; more bytes than the limit are refused as soon as they are known."""
        announced = self.headers.get(b"content-length", b"")
        if announced.isdigit() and int(announced[:20]) > self.max_bytes:
            raise self._too_large()
        parts: list[bytes] = []
        try:
            async with asyncio.timeout(self.seconds):
                while not self.ended:
                    parts.append(await self._next())
                    self._hold(len(parts[-1]))
        except TimeoutError:
            raise ApiError(
                408, f"the body did not arrive within {self.seconds:g} seconds; send it faster, or less of it"
            ) from None
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def discard(self) -> bool:
        """Read what is left of a body that was refused; whether it ended.

        Many clients send all of a request before they read the answer, and would only see a broken connection.
        """
        if self.headers.get(b"expect", b"").lower() == b"100-continue":  # such a client waits with its body
            return self.ended
        left = _DISCARDED * self.max_bytes
        try:
            async with asyncio.timeout(self.seconds):
                while not self.ended and left > 0:
                    left -= len(await self._next())
        except TimeoutError:
            return False
        return self.ended

    def release(self) -> None:
        """Give back the room of the body: its request has been answered."""
        self.room.taken -= self.size
        self.size = 0

    def _hold(self, count: int) -> None:
        self.size += count
        self.room.taken += count
        if self.size > self.max_bytes:
            raise self._too_large()
        if self.room.taken > self.room.most:
            raise ApiError(
                503,
                "this server holds as many bytes of requests as it may; try again",
                code="overloaded",
                headers=(("retry-after", "1"),),
            )

    async def _next(self) -> bytes:
        message = await self.receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        self.ended = not message.get("more_body", False)
        body: bytes = message.get("body", b"")
        return body

    def _too_large(self) -> ApiError:
        return too_large(f"the body has more than {self.max_bytes:,} bytes, which this server takes; send fewer texts")


def check_headers(headers: Mapping[bytes, bytes]) -> None:
    """Refuse a body that is not plain JSON.

    A web page of a stranger may have a browser send any other kind of body here without asking first.
    """
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind != b"application/json" and not kind.endswith(b"+json"):
        raise ApiError(415, "the body must be JSON; send the header content-type: application/json")
    if headers.get(b"content-encoding", b"identity").lower() not in (b"", b"identity"):
        raise ApiError(415, "the body is compressed, and this server reads plain JSON; leave content-encoding out")


def parsed(body: bytes) -> Any:
    """The JSON value in a body.

    >>> parsed(b'{"input": ["a ristretto"]}')
    {'input': ['a ristretto']}
    """
    try:
        return json.loads(body.decode(), parse_constant=_no_constant)
    except UnicodeDecodeError as problem:
        raise bad_request(f"the body is not UTF-8: byte {problem.start} cannot be read") from None
    except json.JSONDecodeError as problem:
        raise bad_request(f"the body is not JSON: {problem.msg} at character {problem.pos}") from None
    except ValueError:  # the only other one: Python refuses to read a whole number of thousands of digits
        raise bad_request("the body has a number with too many digits") from None
    except RecursionError:
        raise bad_request("the body has lists or objects nested too deeply") from None


def _no_constant(name: str) -> None:
    raise bad_request(f"the body has the number {name}, which is not JSON")
