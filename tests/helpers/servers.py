"""A `demitasse serve` in a process of its own, on a free port of this machine, and plain ways to talk to it."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

LONG = 120.0  # seconds; never waited for unless something is broken
_COMMAND = "import runpy; runpy.run_module('demitasse', run_name='__main__', alter_sys=True)"
_WITHOUT = {"DEMITASSE_API_KEY"}


@dataclass(frozen=True)
class Answered:
    """What a server sent back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """The error in OpenAI's shape, which must be whole."""
        error: dict[str, Any] = self.json["error"]
        assert {"message", "type", "param", "code"} <= set(error), error
        assert error["message"]
        return error


class RunningServer:
    """A server that has been started; its lines on stderr are kept."""

    def __init__(self, *arguments: object, setup: str = "", **environment: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._file = Path(self._folder.name, "said").open("wb")  # noqa: SIM115 - until `close`
        # `setup` are lines of Python that run before the command.
        program = ["-c", f"{setup}\n{_COMMAND}"] if setup else ["-m", "demitasse"]
        command = [sys.executable, *program, "serve", "--port", "0", *map(str, arguments)]
        kept = {name: value for name, value in os.environ.items() if name not in _WITHOUT}
        self.process = subprocess.Popen(command, stderr=self._file, stdout=self._file, env={**kept, **environment})
        self.port = int(self.wait_for(r"listening on http://\S*:(\d+)")[1])
        self.url = f"http://127.0.0.1:{self.port}"

    @property
    def said(self) -> str:
        """All that it has written so far."""
        return Path(self._file.name).read_text(encoding="utf-8")

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Wait until a line that it writes matches."""
        for _ in waiting():
            found = re.search(pattern, self.said)
            if found:
                return found
            assert self.process.poll() is None, f"it ended with {self.process.returncode}: {self.said}"
        raise AssertionError(f"it never wrote {pattern}: {self.said}")

    def ask(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None, seconds: float = LONG
    ) -> Answered:
        """One request on a connection of its own."""
        with self.connection(seconds) as connection:
            return ask_on(connection, method, path, body, headers)

    def embed(self, **fields: object) -> Answered:
        """POST /v1/embeddings."""
        return self.ask("POST", "/v1/embeddings", fields)

    @contextmanager
    def connection(self, seconds: float = LONG) -> Iterator[http.client.HTTPConnection]:
        """A connection that stays open for several requests."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds)
        try:
            yield connection
        finally:
            connection.close()

    @contextmanager
    def socket(self, seconds: float = LONG) -> Iterator[socket.socket]:
        """A bare connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as connection:
            yield connection

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End it with a signal, and give its exit code."""
        self.process.send_signal(number)
        return self.process.wait(LONG)

    def close(self) -> None:
        """End it whatever it does."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(LONG)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._file.close()
        self._folder.cleanup()


@contextmanager
def running(*arguments: object, ready: bool = True, setup: str = "", **environment: str) -> Iterator[RunningServer]:
    """A server for a block of code, with its model loaded unless told otherwise."""
    server = RunningServer(*arguments, setup=setup, **environment)
    try:
        if ready:
            server.wait_for("ready: ")
        yield server
    finally:
        server.close()


def ask_on(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: object = None,
    headers: dict[str, str] | None = None,
) -> Answered:
    """One request on an open connection; a body that is not bytes is sent as JSON."""
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    kind = {} if data is None else {"content-type": "application/json"}
    connection.request(method, path, data, {**kind, **(headers or {})})
    answer = connection.getresponse()
    return Answered(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())


def raw_request(body: bytes, *headers: str, path: str = "/v1/embeddings") -> bytes:
    """The bytes of a POST."""
    lines = [f"POST {path} HTTP/1.1", "host: here", "content-type: application/json", *headers]
    if not any(header.lower().startswith(("content-length", "transfer-encoding")) for header in headers):
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def read_answer(connection: socket.socket) -> Answered:
    """What comes back on a bare connection."""
    answer = http.client.HTTPResponse(connection)
    answer.begin()
    body = answer.read()
    return Answered(answer.status, {name.lower(): value for name, value in answer.getheaders()}, body)


def waiting(seconds: float = LONG, pause: float = 0.05) -> Iterator[None]:
    """Again and again until a time that only something broken reaches."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield
        time.sleep(pause)


def memory_mb(process: int) -> float:
    """What a process holds in memory now, in megabytes."""
    return float(psutil.Process(process).memory_info().rss) / 1e6


def children(process: int) -> list[int]:
    """The worker processes of a server with several."""
    try:
        found = psutil.Process(process).children()
    except psutil.NoSuchProcess:
        return []
    return sorted(child.pid for child in found if "spawn_main" in " ".join(child.cmdline()))
