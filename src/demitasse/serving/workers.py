"""Several processes on one port: started, watched, replaced when one dies, and told to stop together.

The parent holds the listening socket, so the port stays open while a worker is replaced: connections wait in it.
"""

from __future__ import annotations

import multiprocessing
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from pathlib import Path

from demitasse.errors import DemitasseError
from demitasse.serving.options import ServeOptions
from demitasse.serving.worker import Worker
from demitasse.serving.worker_counts import WorkerCounts

FAILED = 2  # exit code of a worker that cannot start
_LOOK = 0.1  # seconds between two looks at the workers
_LONGEST_PAUSE = 30.0  # seconds before a worker that keeps dying is started again
_spawn = multiprocessing.get_context("spawn")


class WorkersFailed(DemitasseError):  # noqa: N818 - it names what happened
    """No worker could start; each has said why."""


def run_worker(options: ServeOptions, listener: socket.socket, ready: Event, folder: str) -> None:
    """What a worker process does."""
    worker = Worker(options, WorkerCounts(Path(folder)), lambda model: ready.set())
    threading.Thread(target=_stop_with_parent, args=(worker,), daemon=True).start()
    try:
        worker.run(listener)
    except DemitasseError as problem:
        sys.stderr.write(f"error: {problem}\n")
        sys.exit(FAILED)


def _stop_with_parent(worker: Worker) -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        worker.stop()


@dataclass
class _Place:
    """One of the workers: the process that has this place now."""

    process: BaseProcess
    ready: Event
    started: float
    deaths: int = 0  # since one was last ready
    again: float | None = None  # when to start another


@dataclass
class Workers:
    """The processes of a server."""

    options: ServeOptions
    tell: Callable[[str], None]
    _places: list[_Place] = field(default_factory=list)
    _ever_ready: bool = False
    _told: bool = False
    _stopping: bool = False

    def run(self, listener: socket.socket) -> None:
        """Keep the workers running until a signal says to stop."""
        with tempfile.TemporaryDirectory(prefix="demitasse-") as folder, self._signals():
            self._listener, self._folder = listener, folder
            self._counts = WorkerCounts(Path(folder))
            try:
                self._places = [self._started() for _ in range(self.options.workers)]
                while not self._stopping:
                    self._look(time.monotonic())
                    time.sleep(_LOOK)
            finally:
                self._stop()

    def _started(self, deaths: int = 0) -> _Place:
        ready = _spawn.Event()
        process = _spawn.Process(
            target=run_worker, args=(self.options, self._listener, ready, self._folder), name="demitasse-worker"
        )
        process.start()
        return _Place(process, ready, time.monotonic(), deaths)

    def _look(self, now: float) -> None:
        """Replace workers that have died, sooner or, if they keep dying, later."""
        for index, place in enumerate(self._places):
            if place.ready.is_set() and place.deaths:
                place.deaths = 0
            self._ever_ready = self._ever_ready or place.ready.is_set()
            code = place.process.exitcode
            if code is None or self._stopping:
                continue
            if place.again is None:
                if code == FAILED and not self._ever_ready:
                    raise WorkersFailed("no worker could start; the line above says why")
                pause = 0.0 if place.ready.is_set() else min(_LONGEST_PAUSE, 2.0**place.deaths)
                place.again = now + pause
                self._counts.retire(place.process.pid or 0)
                ended = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
                self.tell(f"worker {place.process.pid} {ended}; another is started")
            if now >= place.again:
                self._places[index] = self._started(place.deaths + 1)
        if not self._told and all(place.ready.is_set() for place in self._places):
            self._told = True
            self.tell(f"ready: {len(self._places)} workers")

    def _stop(self) -> None:
        """Have every worker drain and end; one that does not is killed."""
        living = [place.process for place in self._places if place.process.exitcode is None]
        for process in living:
            process.terminate()
        deadline = time.monotonic() + self.options.limits.drain_seconds + 5
        for process in living:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.exitcode is None:
                process.kill()
                process.join()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        def stop(number: int, frame: object) -> None:
            self._stopping = True

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
