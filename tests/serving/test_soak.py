"""Ten minutes of many clients with requests of all cuts and sizes: every reply is compared with `encode`.

DEMITASSE_SOAK_SECONDS sets another length.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import random
import time
from collections import Counter, defaultdict

import numpy as np
import pytest
from servers import RunningServer, children, memory_mb, running, waiting
from soak_results import told

import demitasse as dt
from demitasse.encoding.vectors import Vectors, unit_length

pytestmark = [pytest.mark.soak, pytest.mark.posix]
SECONDS = float(os.environ.get("DEMITASSE_SOAK_SECONDS", "600"))
CLIENTS = 32
WORDS = ["espresso", "cup", "river", "bank", "music", "law", "city", "machine", "learning", "rain", "old", "bread"]


def texts_of_all_lengths(count: int = 300) -> list[str]:
    draw = random.Random(0)
    lengths = [draw.choice([1, 3, 8, 15, 30, 80, 300]) for _ in range(count)]
    return [" ".join(draw.choices(WORDS, k=length)) + f" {number}" for number, length in enumerate(lengths)]


class Soak:
    """Clients of one server, and what they saw."""

    def __init__(self, server: RunningServer, expected: dict[dt.Cut, Vectors], seconds: float) -> None:
        self.server, self.texts, self.expected = server, texts_of_all_lengths(), expected
        self.seconds, self.end = seconds, time.monotonic() + seconds
        self.seen: Counter[str] = Counter()
        self.worst = 0.0
        self.memory: dict[int, list[float]] = defaultdict(list)  # of each worker, over time

    async def run(self) -> None:
        await asyncio.gather(self._watch(), *(self._client(number) for number in range(CLIENTS)))

    async def _watch(self) -> None:
        processes = children(self.server.process.pid) or [self.server.process.pid]
        while time.monotonic() < self.end:
            await asyncio.sleep(self.seconds / 24)
            for process in processes:
                self.memory[process].append(memory_mb(process))

    async def _client(self, number: int) -> None:
        draw = random.Random(number)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        while time.monotonic() < self.end:
            count = draw.choice([1, 1, 1, 1, 2, 4, 16, 100])
            chosen = [draw.randrange(len(self.texts)) for _ in range(count)]
            layers, dims = draw.randrange(7), draw.choice([32, 64, 100, 128, 384])
            coded = draw.random() < 0.5
            body = {"input": [self.texts[one] for one in chosen], "layers": layers, "dimensions": dims}
            body["encoding_format"] = "base64" if coded else "float"
            answer = await _exchange(reader, writer, body)
            rows = [entry["embedding"] for entry in answer["data"]]
            given = np.array([np.frombuffer(base64.b64decode(row), "<f4") for row in rows] if coded else rows)
            wanted = unit_length(self.expected[dt.Cut(layers, 384)][chosen][:, :dims])
            self.worst = max(self.worst, float(np.abs(given - wanted).max()))
            self.seen["requests"] += 1
            self.seen["texts"] += count
        writer.close()


async def _exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: dict[str, object]) -> dict:
    data = json.dumps(body).encode()
    head = b"POST /v1/embeddings HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    writer.write(head % len(data) + data)
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    assert lines.startswith("http/1.1 200"), lines
    length = int(lines.partition("content-length:")[2].split("\r\n")[0])
    return json.loads(await reader.readexactly(length))


@pytest.mark.parametrize(("workers", "share"), [(1, 1.0), (2, 0.25)])
def test_every_reply_is_right_and_memory_stays_flat(model: dt.Encoder, workers: int, share: float) -> None:
    expected = model.encode_cuts(texts_of_all_lengths(), [dt.Cut(layers, 384) for layers in range(7)])
    patient = ("--timeout-ms", 600_000, "--max-queue-seconds", 600)  # however busy this machine is
    with running("--workers", workers, *patient) as server:
        soak = Soak(server, expected, SECONDS * share)
        asyncio.run(soak.run())
        for _ in waiting():
            if server.ask("GET", "/load").json["queue_tokens"] == 0:
                break
        assert server.stop() == 0
    seen = {"seconds": round(SECONDS * share), **{name: soak.seen[name] for name in ("requests", "texts")}}
    told("many clients", workers=workers, clients=CLIENTS, **seen, **{"largest difference": f"{soak.worst:.1e}"})
    assert soak.worst < 2e-5
    for series in soak.memory.values():
        print(f"  MB of a worker: {' '.join(f'{value:.0f}' for value in series)}")
        third = len(series) // 3
        middle, last = np.mean(series[third : 2 * third]), np.mean(series[2 * third :])
        assert last - middle < 15, series
