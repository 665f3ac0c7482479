"""`serve`: listen on a port and answer until a signal says to stop."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import replace

from demitasse.errors import DataError, file_reason
from demitasse.host.machine import cores
from demitasse.serving.options import ServeOptions
from demitasse.serving.service import Model
from demitasse.serving.worker import Worker
from demitasse.serving.workers import Workers


def serve(options: ServeOptions, tell: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C; what a person wants to know is told in lines."""
    with listening(options.host, options.port) as listener:
        tell(f"listening on {address(listener)}; loading the model")
        if options.workers == 1:

            def ready(model: Model) -> None:
                tell(f"ready: {model.offer.name} {model.encoder.full}, {model.encoder.place}")

            Worker(options, when_ready=ready).run(listener)
        else:
            Workers(_shared(options), tell).run(listener)
    tell("stopped")


def listening(host: str, port: int) -> socket.socket:
    """A socket that is bound to a port; port 0 is any free one."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, place = found[0]
        # With its protocol: asyncio sends answers without delay only on sockets that say they are TCP, and others wait
        # 40 ms for a client that waits for them.
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(place)
            # Now and not when the model is loaded: a second server on this port is told at once.
            listener.listen(2048)
        except OSError:
            listener.close()
            raise
    except OSError as problem:
        why = file_reason(problem)
        raise DataError(f"cannot listen on {host} port {port} ({why}); choose another --host or --port") from None
    listener.settimeout(0)
    return listener


def address(listener: socket.socket) -> str:
    """Where a listening socket is reached.

    >>> with listening("127.0.0.1", 0) as listener:
    ...     address(listener).startswith("http://127.0.0.1:")
    True
    """
    host, port, *_ = listener.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _shared(options: ServeOptions) -> ServeOptions:
    """Each worker computes on its share of the cores, unless told otherwise."""
    if options.engine.threads is not None:
        return options
    return replace(options, engine=replace(options.engine, threads=max(1, cores() // options.workers)))
