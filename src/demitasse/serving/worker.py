"""One process of the server: it listens at once, loads the model meanwhile, answers, and drains when told to stop."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn

from demitasse.encoding.loading import folder_of, load
from demitasse.errors import DemitasseError, FolderError, reason
from demitasse.serving.app import application
from demitasse.serving.connections import HEADER_BYTES, connection_class, look_at_all
from demitasse.serving.engine import Engine
from demitasse.serving.offer import BUILT_IN_NAME, Offer
from demitasse.serving.options import ServeOptions
from demitasse.serving.service import Model, Service
from demitasse.serving.worker_counts import WorkerCounts

_TICKS = 10  # of uvicorn in a second


@dataclass
class Worker:
    """A server process; `run` returns when it has stopped, and raises what kept it from starting."""

    options: ServeOptions
    counts: WorkerCounts = field(default_factory=WorkerCounts)
    when_ready: Callable[[Model], None] = lambda model: None

    def run(self, listener: socket.socket) -> None:
        """Serve on a socket until a signal says to stop."""
        options = self.options
        self.service = Service(
            options.limits, options.keys, options.origins, self.counts, log=_log if options.log_requests else None
        )
        config = uvicorn.Config(
            application(self.service),
            http=connection_class(options.limits),
            loop="asyncio",  # uvloop's clock counts whole milliseconds, too few for the times in replies
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=2048,
            timeout_keep_alive=max(1, round(options.limits.idle_seconds)),
            timeout_graceful_shutdown=max(1, round(options.limits.drain_seconds)),
            h11_max_incomplete_event_size=HEADER_BYTES,
        )
        self.server = _Server(config, self)
        self.server.run([listener])
        if self.server.failure is not None:
            raise self.server.failure

    def stop(self) -> None:
        """Begin to drain; may be called from any thread."""
        self.server.should_exit = True

    async def open(self) -> None:
        """Load the model and make it answer."""
        options = self.options
        encoder = await asyncio.to_thread(
            load, options.model, device=options.device, max_seq_length=options.max_seq_length
        )
        engine = Engine(encoder, options.engine)
        await engine.start()
        folder = folder_of(options.model)
        names = options.names or (BUILT_IN_NAME if options.model is None else encoder.name,)
        created = await asyncio.to_thread(_changed, folder)
        model = Model(encoder, engine, Offer.of(encoder, names, created, options.engine.profile))
        self.service.open(model)
        self.when_ready(model)


class _Server(uvicorn.Server):
    """uvicorn's server, which loads the model while it listens, looks after connections, and exits with 0."""

    def __init__(self, config: uvicorn.Config, worker: Worker) -> None:
        super().__init__(config)
        self.failure: DemitasseError | None = None
        self._worker = worker

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and load the model."""
        await super().startup(sockets)
        self._worker.service.connections = lambda: len(self.server_state.connections)
        self._opening = asyncio.create_task(self._open())

    async def on_tick(self, counter: int) -> bool:
        """Once a second, look at all connections and write down what was counted."""
        if counter % _TICKS == 0:
            look_at_all(self.server_state.connections, asyncio.get_running_loop().time())
            self._worker.counts.publish(self._worker.service.snapshot())
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more connections, answer what was asked, and end."""
        service = self._worker.service
        service.stage = "stopping"
        self._opening.cancel()
        with suppress(asyncio.CancelledError):
            await self._opening
        looking = asyncio.create_task(self._look_on())
        await super().shutdown(sockets)
        looking.cancel()
        if service.is_open:
            await service.model.engine.drain(1)
        self._worker.counts.publish(service.snapshot())

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As uvicorn does it, but a server that was told to stop and did so has not failed."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def _open(self) -> None:
        try:
            await self._worker.open()
        except DemitasseError as problem:
            self.failure, self.should_exit = problem, True
        except Exception as problem:  # of a library that opens the model
            why = f"the model cannot be served ({type(problem).__name__}: {reason(problem)}); check its folder"
            self.failure, self.should_exit = FolderError(why), True

    async def _look_on(self) -> None:
        while True:  # a slow client must not hold up the end
            await asyncio.sleep(1)
            look_at_all(self.server_state.connections, asyncio.get_running_loop().time())


def _changed(folder: Path) -> int:
    """When a model folder was last written, in seconds since 1970."""
    return int(max((path.stat().st_mtime for path in folder.glob("*.json")), default=0))


def _log(line: str) -> None:
    sys.stderr.write(f"{line}\n")
