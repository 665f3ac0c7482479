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


Bodies = Callable[[random.Random], dict[str, object]]


class Client:
    """One connection, opened again when the server closes it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader | None = None

    async def ask(self, body: dict[str, object]) -> tuple[int, int | None]:
        """The status of an answer and its layers; status 0 is a broken connection."""
        data = json.dumps(body).encode()
        head = b"POST /v1/embeddings HTTP/1.1\r\nhost: here\r\ncontent-type: application/json\r\ncontent-length: "
        request = b"%b%d\r\n\r\n%b" % (head, len(data), data)
        try:
            if self._reader is None:
                self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
            self._writer.write(request)
            lines = await self._reader.readuntil(b"\r\n\r\n")
            length, cut = _LENGTH.search(lines), _CUT.search(lines)
            await self._reader.readexactly(int(length[1]) if length else 0)
            return int(lines[9:12]), int(cut[1]) if cut else None
        except (OSError, asyncio.IncompleteReadError):
            self.close()
            return 0, None

    def close(self) -> None:
        if self._reader is not None:
            self._writer.close()
            self._reader = None


async def closed_loop(port: int, bodies: Bodies, clients: int, seconds: float, seed: int = 0) -> list[Seen]:
    """What `clients` saw that were never idle for so long."""
    seen: list[Seen] = []
    begun = time.perf_counter()

    async def go_on(number: int) -> None:
        draw, client = random.Random(f"{seed} {number}"), Client(port)
        while (due := time.perf_counter() - begun) < seconds:
            status, layers = await client.ask(bodies(draw))
            seen.append(Seen(due, time.perf_counter() - begun - due, status, layers))
        client.close()

    await asyncio.gather(*(go_on(number) for number in range(clients)))
    return seen


async def open_loop(port: int, bodies: Bodies, times: Iterator[float], seed: int = 0) -> list[Seen]:
    """What clients saw whose requests came at `times`, seconds after the start."""
    seen: list[Seen] = []
    free: list[Client] = []
    waiting: set[asyncio.Task[None]] = set()
    draw = random.Random(seed)
    begun = time.perf_counter()

    async def one(due: float, body: dict[str, object]) -> None:
        client = free.pop() if free else Client(port)
        status, layers = await client.ask(body)
        seen.append(Seen(due, time.perf_counter() - begun - due, status, layers))
        free.append(client)

    for due in times:
        pause = due - (time.perf_counter() - begun)
        if pause > 0:
            await asyncio.sleep(pause)
        task = asyncio.create_task(one(due, bodies(draw)))
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
