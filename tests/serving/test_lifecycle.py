"""From start to end: alive while the model loads, drained by SIGTERM, several workers that replace one another."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import numpy as np
import psutil
import pytest
from servers import RunningServer, children, raw_request, read_answer, running, waiting

import demitasse as dt

pytestmark = pytest.mark.posix
LARGE = {"input": ["a text of some length, as documents have it, " * 5] * 80}
SLOW_LOAD = """
import pathlib, time
import demitasse.serving.worker as worker
really = worker.load
def load(*arguments, **named):
    while not pathlib.Path({path!r}).exists():
        time.sleep(0.01)
    return really(*arguments, **named)
worker.load = load
"""


def failed(*arguments: object) -> str:
    """What a server says that does not start."""
    command = [sys.executable, "-m", "demitasse", "serve", *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 2, ended.stderr
    assert "Traceback" not in ended.stderr
    return ended.stderr


def test_it_is_alive_while_its_model_loads(tmp_path: Path) -> None:
    gate = tmp_path / "go"
    with running(ready=False, setup=SLOW_LOAD.format(path=str(gate))) as server:
        assert server.ask("GET", "/health").json == {"status": "ok", "stage": "starting"}
        for method, path, body in (
            ("GET", "/ready", None),
            ("POST", "/v1/embeddings", {"input": "a"}),
            ("GET", "/v1/models", None),
            ("GET", "/openapi.json", None),
        ):
            answer = server.ask(method, path, body)
            assert answer.status == 503
            assert answer.error["code"] == "not_ready"
            assert answer.headers["retry-after"] == "1"
        gate.touch()
        server.wait_for("ready: demitasse 6x384, int8 blocks, cpu")
        assert server.ask("GET", "/ready").status == 200
        assert server.embed(input="a").status == 200


def test_it_stops_while_its_model_loads(tmp_path: Path) -> None:
    with running(ready=False, setup=SLOW_LOAD.format(path=str(tmp_path / "never")) + "\nimport os") as server:
        assert server.ask("GET", "/health").status == 200
        server.process.send_signal(signal.SIGTERM)
        (tmp_path / "never").touch()  # a thread cannot be ended from outside
        assert server.process.wait(60) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_was_asked_is_answered_before_it_stops(number: int) -> None:
    with running() as server:
        connections = [socket.create_connection(("127.0.0.1", server.port), timeout=120) for _ in range(4)]
        idle = socket.create_connection(("127.0.0.1", server.port), timeout=120)
        for connection in connections:
            connection.sendall(raw_request(json.dumps(LARGE).encode()))
        for _ in waiting(seconds=2):  # where they are computed faster than that, they are whole anyway
            if server.ask("GET", "/load").json["queue_tokens"] > 0:
                break
        server.process.send_signal(number)
        for connection in connections:
            with connection:
                answer = read_answer(connection)
            assert answer.status == 200
            assert len(answer.json["data"]) == 80
        with idle:
            assert idle.recv(1) == b""
        assert server.process.wait(60) == 0
        assert server.said.endswith("stopped\n")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", server.port), timeout=5)


def test_a_client_that_dawdles_does_not_hold_up_the_end() -> None:
    with running("--drain-seconds", 1) as server, server.socket() as connection:
        connection.sendall(raw_request(b"", "content-length: 50") + b"{")
        assert server.ask("GET", "/health").status == 200
        assert server.stop() == 0


class Load:
    """Clients that ask again and again, each on a connection of its own, and what became of it."""

    def __init__(self, server: RunningServer, model: dt.Encoder, clients: int = 8) -> None:
        self.server, self.seen, self._stop = server, Counter[str](), threading.Event()
        self.texts = [f"text number {number}" for number in range(clients)]
        self.expected = model.cut("2x64").encode(self.texts)
        self.threads = [threading.Thread(target=self._ask, args=(index,)) for index in range(clients)]
        for thread in self.threads:
            thread.start()

    def _ask(self, index: int) -> None:
        while not self._stop.is_set():
            try:
                with self.server.connection() as connection:
                    while not self._stop.is_set():
                        self._once(connection, index)
            except ConnectionRefusedError:
                self.seen["refused"] += 1
            except (OSError, http.client.HTTPException) as problem:
                self.seen[f"lost: {type(problem).__name__}"] += 1

    def _once(self, connection: http.client.HTTPConnection, index: int) -> None:
        body = json.dumps({"model": "demitasse:2x64", "input": self.texts[index]})
        connection.request("POST", "/v1/embeddings", body, {"content-type": "application/json"})
        answer = connection.getresponse()
        content = answer.read()
        self.seen[str(answer.status)] += 1
        if answer.status == 200:
            vector = json.loads(content)["data"][0]["embedding"]
            self.seen["right" if np.allclose(vector, self.expected[index], atol=2e-6) else "wrong"] += 1

    def wait_for_more(self, count: int) -> None:
        """Wait until so many more were answered."""
        goal = self.seen["200"] + count
        for _ in waiting():
            if self.seen["200"] >= goal:
                return
        raise AssertionError(f"too few answers: {self.seen}")

    def stop(self) -> Counter[str]:
        self._stop.set()
        for thread in self.threads:
            thread.join()
        return self.seen


def test_under_load_sigterm_ends_with_whole_answers(model: dt.Encoder) -> None:
    with running() as server:
        load = Load(server, model)
        load.wait_for_more(200)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
        seen = load.stop()
    assert seen["wrong"] == 0
    assert seen["right"] == seen["200"]
    assert {status for status in seen if status.isdigit()} <= {"200", "503"}


def test_a_killed_worker_is_replaced_and_the_port_stays_open(model: dt.Encoder) -> None:
    with running("--workers", 2) as server:
        workers = children(server.process.pid)
        assert len(workers) == 2
        load = Load(server, model)
        load.wait_for_more(200)
        os.kill(workers[0], signal.SIGKILL)
        server.wait_for(f"worker {workers[0]} was killed by signal 9; another is started")
        load.wait_for_more(200)
        for _ in waiting():
            now = children(server.process.pid)
            if len(now) == 2 and workers[0] not in now:
                break
        load.wait_for_more(200)
        seen = load.stop()
        assert workers[1] in children(server.process.pid)
        assert seen["refused"] == 0
        assert seen["wrong"] == 0
        assert seen["right"] == seen["200"]
        assert sum(count for name, count in seen.items() if name.startswith("lost")) <= 8  # what it was working on
        assert {status for status in seen if status.isdigit()} <= {"200", "503"}
        assert server.stop() == 0
        assert children(server.process.pid) == []


def test_any_worker_answers_for_all_of_them() -> None:
    with running("--workers", 2) as server:
        for number in range(40):
            assert server.embed(input=f"text {number}", layers=1).status == 200
        for _ in waiting():
            counted = [server.ask("GET", "/load").json for _ in range(4)]
            if all(load["inputs_by_layers"] == {"1": 40} and load["ready"] == 2 for load in counted):
                break
        else:
            raise AssertionError(counted)
        victim = children(server.process.pid)[0]
        os.kill(victim, signal.SIGKILL)
        server.wait_for(f"worker {victim} was killed")
        for _ in range(4):
            assert server.ask("GET", "/load").json["inputs_by_layers"] == {"1": 40}


def test_workers_end_when_their_parent_is_killed() -> None:
    with running("--workers", 2) as server:
        workers = children(server.process.pid)
        assert server.stop(signal.SIGKILL) == -9
        for _ in waiting():
            if not any(psutil.pid_exists(worker) for worker in workers):
                return
        raise AssertionError("the workers are still there")


def test_a_server_that_cannot_start_says_why() -> None:
    assert "there is no folder 'nowhere at all'" in failed("nowhere at all", "--port", 0)
    said = failed("nowhere at all", "--port", 0, "--workers", 2)
    assert "there is no folder 'nowhere at all'" in said
    assert "no worker could start; the line above says why" in said
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"cannot listen on 127.0.0.1 port {port} (Address already in use); choose another" in failed(
            "--port", port
        )
