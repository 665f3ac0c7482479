"""A proxy that puts a server under a path of its own, as `location /embed/ { proxy_pass http://server/; }` does."""

from __future__ import annotations

import re
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def behind_prefix(prefix: str, port: int) -> Iterator[str]:
    """The address of a proxy for the server on `port`, whose paths all begin with `prefix`."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            head = b""
            while b"\r\n\r\n" not in head:
                part = self.request.recv(65536)
                if not part:
                    return
                head += part
            # One request per connection, so that every first line is seen.
            head = re.sub(rb"(?im)^connection: .*\r\n", b"", head)
            line, _, rest = head.partition(b"\r\n")
            method, path, version = line.split(b" ")
            if path != prefix.encode() and not path.startswith(f"{prefix}/".encode()):
                self.request.sendall(
                    b"HTTP/1.1 421 Not Under The Prefix\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
                )
                return
            inside = path[len(prefix) :] or b"/"
            with socket.create_connection(("127.0.0.1", port)) as server:
                server.sendall(b" ".join([method, inside, version]) + b"\r\nconnection: close\r\n" + rest)
                upward = threading.Thread(target=_pass_on, args=(self.request, server), daemon=True)
                upward.start()
                _pass_on(server, self.request)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True

    with Server(("127.0.0.1", 0), Handler) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{proxy.server_address[1]}{prefix}"
        finally:
            proxy.shutdown()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    """Send on all that comes until either side ends; then tell the other."""
    try:
        while part := source.recv(65536):
            target.sendall(part)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        source.close()
        target.close()
