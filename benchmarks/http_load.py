"""Clients for benchmarks/serve.py: bare sockets, so that two cores are spent on the server and not on a client library.

A closed loop keeps so many clients busy: each sends its next request when the last is answered. An open loop sends
requests at times of its own, however long answers take, and counts latency from those times: a server that falls
behind cannot slow its clients down and look better for it.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_CUT = re.compile(rb"x-demitasse-cut: *(\d+)x", re.IGNORECASE)


@dataclass(frozen=True)
class Seen:
    """One request: when it was due, how long its answer took, its status, and the layers that the server says."""

    due: float  # seconds after the start
    seconds: float
    status: int
    layers: int | None = None


Requests = Callable[[random.Random], bytes]


def request(body: dict[str, object]) -> bytes:
    """A request for vectors, as it goes over the wire."""
    data = json.dumps(body).encode()
    head = b"POST /v1/embeddings HTTP/1.1\r\nhost: here\r\ncontent-type: application/json\r\ncontent-length: "
    return b"%b%d\r\n\r\n%b" % (head, len(data), data)


class Client(asyncio.Protocol):
    """One connection, opened again when the server closes it. A stream of asyncio's would take twice the time."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[tuple[int, int | None]] | None = None
        self._data = b""

    async def ask(self, request: bytes) -> tuple[int, int | None]:
        """The status of an answer and its layers; status 0 is a broken connection."""
        loop = asyncio.get_running_loop()
        if self._transport is None:
            try:
                self._transport, _ = await loop.create_connection(lambda: self, "127.0.0.1", self._port)
            except OSError:
                return 0, None
        self._data, self._answer = b"", loop.create_future()
        self._transport.write(request)
        return await self._answer

    def data_received(self, data: bytes) -> None:
        self._data += data
        end = self._data.find(b"\r\n\r\n")
        if end < 0:
            return
        lines = self._data[:end]
        length, cut = _LENGTH.search(lines), _CUT.search(lines)
        if len(self._data) >= end + 4 + (int(length[1]) if length else 0):
            self._tell(int(lines[9:12]), int(cut[1]) if cut else None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._tell(0, None)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _tell(self, status: int, layers: int | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result((status, layers))


async def closed_loop(port: int, requests: Requests, clients: int, seconds: float, seed: int = 0) -> list[Seen]:
    """What `clients` saw that were never idle for so long."""
    seen: list[Seen] = []
    begun = time.perf_counter()

    async def go_on(number: int) -> None:
        draw, client = random.Random(f"{seed} {number}"), Client(port)
        while (due := time.perf_counter() - begun) < seconds:
            status, layers = await client.ask(requests(draw))
            seen.append(Seen(due, time.perf_counter() - begun - due, status, layers))
        client.close()

    await asyncio.gather(*(go_on(number) for number in range(clients)))
    return seen


async def open_loop(port: int, requests: Requests, times: Iterator[float], seed: int = 0) -> list[Seen]:
    """What clients saw whose requests came at `times`, seconds after the start."""
    seen: list[Seen] = []
    free: list[Client] = []
    waiting: set[asyncio.Task[None]] = set()
    draw = random.Random(seed)
    begun = time.perf_counter()

    async def one(due: float, request: bytes) -> None:
        client = free.pop() if free else Client(port)
        status, layers = await client.ask(request)
        seen.append(Seen(due, time.perf_counter() - begun - due, status, layers))
        free.append(client)

    for due in times:
        pause = due - (time.perf_counter() - begun)
        if pause > 0:
            await asyncio.sleep(pause)
        task = asyncio.create_task(one(due, requests(draw)))
        waiting.add(task)
        task.add_done_callback(waiting.discard)
    while waiting:
        await asyncio.wait(waiting)
    for client in free:
        client.close()
    return seen


def poisson(rate: Callable[[float], float], seconds: float, seed: int = 0) -> Iterator[float]:
    """Random times at `rate(t)` requests per second."""
    draw, now = random.Random(seed), 0.0
    while now < seconds:
        now += draw.expovariate(rate(now))
        yield now
