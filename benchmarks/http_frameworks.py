"""What a request costs before anything is computed: frameworks and parsers of HTTP, in turns.

    python benchmarks/http_frameworks.py --json benchmarks/results/http-frameworks.json

Each server reads a small JSON body and answers with a vector in base64, as a server of embeddings does that has it at
hand. All run at once, and 8 clients ask one after the other. Microseconds are the CPU time of the server process per
request, the median of rounds. Needs fastapi, starlette, uvicorn and httptools.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import statistics
import sys
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any

import http_load
import psutil
from serve import Server, free_port

from demitasse.host.machine import machine

VECTOR = base64.b64encode(bytes(384 * 4)).decode()
SERVERS = [
    ("FastAPI", "h11"),
    ("FastAPI", "httptools"),
    ("Starlette", "httptools"),
    ("bare ASGI", "httptools"),
    ("bare ASGI", "h11"),
]


def answered(body: bytes) -> bytes:
    json.loads(body)
    return json.dumps({"data": [{"embedding": VECTOR}], "usage": {"prompt_tokens": 3}}).encode()


async def bare(scope: Any, receive: Any, send: Any) -> None:
    body = answered((await receive())["body"])
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class Bare:
    """The same as an object, which Starlette routes to without a wrapper of its own."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await bare(scope, receive, send)


def application(name: str) -> Any:
    if name == "FastAPI":
        from fastapi import FastAPI, Request, Response

        app = FastAPI()

        @app.post("/v1/embeddings")
        async def embeddings(request: Request) -> Response:
            return Response(answered(await request.body()), media_type="application/json")

        embeddings.__globals__.update(Request=Request, Response=Response)
        return app
    if name == "Starlette":
        from starlette.applications import Starlette
        from starlette.routing import Route

        return Starlette(routes=[Route("/v1/embeddings", Bare(), methods=["POST"])])
    return bare


def run(name: str, parser: str, port: int) -> None:
    import uvicorn

    options: dict[str, Any] = {"http": parser, "loop": "asyncio", "lifespan": "off", "log_level": "critical"}
    uvicorn.run(application(name), port=port, **options)


def body(draw: Any) -> dict[str, object]:
    return {"input": "how to make better espresso at home", "model": "demitasse", "encoding_format": "base64"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        run(args.run[0], args.run[1], int(args.run[2]))
        return
    found: dict[tuple[str, str], list[float]] = {one: [] for one in SERVERS}
    with ExitStack() as stack:
        servers = {}
        for one in SERVERS:
            port = free_port()
            command = [sys.executable, __file__, "--run", *one, str(port)]
            servers[one] = Server(str(one), port, command)
            stack.callback(servers[one].close)
        for one in SERVERS:
            for _ in range(200):
                seen = asyncio.run(http_load.closed_loop(servers[one].port, body, 1, 0.1))
                if seen[-1].status == 200:
                    break
        for _ in range(args.rounds):
            for one, server in servers.items():
                process = psutil.Process(server.process.pid)
                before = process.cpu_times()
                seen = asyncio.run(http_load.closed_loop(server.port, body, 8, 0.5))
                after = process.cpu_times()
                spent = after.user + after.system - before.user - before.system
                found[one].append(spent / len(seen) * 1e6)
    rows = [
        {"server": name, "parser": parser, "cpu_microseconds": round(statistics.median(values))}
        for (name, parser), values in found.items()
    ]
    for row in rows:
        print(row)
    packages = {name: version(name) for name in ("fastapi", "starlette", "uvicorn", "httptools", "h11")}
    if args.json:
        result = {"machine": machine(), "versions": packages, "rounds": args.rounds, "rows": rows}
        args.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
