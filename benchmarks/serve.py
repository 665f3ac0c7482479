"""Requests per second and latencies of servers on loopback, in turns: demitasse beside its peers; and overload.

    python benchmarks/serve.py --model all-MiniLM-L6-v2 --json benchmarks/results/serve.json
    python benchmarks/serve.py --model all-MiniLM-L6-v2 --seconds 1 --rounds 1 --only closed    # a quick look

MODEL is the sentence-transformers folder that the peers run; demitasse runs its built-in model, trained from it. The
peers are sentence-transformers behind FastAPI (benchmarks/peer_server.py; pip install fastapi sentence-transformers)
and, with `--infinity PYTHON`, infinity-emb in the environment of that Python, which knows no layers. Every request has
one sentence, and asks for floats. All servers run at once and are asked in turns, so that a slow minute of the machine
hits all of them.

Closed loop: 1, 8 and 32 clients, each sending its next request when the last was answered; 6, 3 and 1 layers, and a
mix of the three. Open loop: Poisson arrivals at shares of what demitasse can do at 6 layers; latencies count from when
a request was due. Overload: arrivals rise from half of what 32 clients got at 6 layers to four times as much; every
request is a query of 6 layers with a deadline, sent to a server with --shed and to one without. "In time" is what the
client saw; quality is that of the layers used, as a share of all of them, from research/results/profile-built-in.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import http_load
import numpy as np
from http_load import Seen

from demitasse.host.bundled import corpus
from demitasse.host.machine import machine, versions

HERE = Path(__file__).parent
ROOT = HERE.parent
CLIENTS = (1, 8, 32)
DEPTHS: dict[str, tuple[int, ...]] = {"6": (6,), "3": (3,), "1": (1,), "mixed": (6, 3, 1)}
SHARES = (0.5, 0.8, 1.0)  # of what demitasse can do, in the open loop
RAMP = (0.5, 4.0)  # where overload begins and ends
SENTENCES = corpus()
QUERIES = {  # of the overload: short ones cost little more than HTTP, whatever their layers
    "a sentence": SENTENCES,
    "four sentences": [" ".join(SENTENCES[at : at + 4]) for at in range(0, len(SENTENCES) - 3, 4)],
}


class Server:
    """A server in a process of its own."""

    def __init__(self, name: str, port: int, command: list[str]) -> None:
        self.name, self.port = name, port
        self.process = subprocess.Popen(command, env={**os.environ, "TOKENIZERS_PARALLELISM": "false"})

    def wait(self, path: str) -> None:
        for _ in range(1200):
            assert self.process.poll() is None, f"{self.name} has ended"
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=120).close()
                return
            except OSError:
                time.sleep(0.1)
        raise TimeoutError(self.name)

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def started(stack: ExitStack, name: str, command: list[str], path: str = "/ready") -> Server:
    port = free_port()
    server = Server(name, port, [word.replace("PORT", str(port)) for word in command])
    stack.callback(server.close)
    server.wait(path)
    return server


def ours(stack: ExitStack, name: str, *options: str) -> Server:
    command = [sys.executable, "-m", "demitasse", "serve", "--port", "PORT", "--name", "peer"]
    return started(stack, name, [*command, *options])


def peers(stack: ExitStack, model: str, infinity: str | None) -> list[Server]:
    found = [
        started(stack, "sentence-transformers", [sys.executable, str(HERE / "peer_server.py"), model, "PORT"]),
    ]
    if infinity:
        options = ["--model-id", model, "--served-model-name", "peer", "--url-prefix", "/v1", "--port", "PORT"]
        quiet = ["--device", "cpu", "--engine", "torch", "--log-level", "error", "--no-bettertransformer"]
        found.append(started(stack, "infinity", [infinity, "v2", *options, *quiet], "/health"))
    return found


def requests(layers: tuple[int, ...], texts: Sequence[str] = SENTENCES, **more: object) -> http_load.Requests:
    """Requests for one of `texts` at one of `layers`."""

    @cache
    def made(text: str, depth: int) -> bytes:
        return http_load.request({"model": "peer", "input": text, "encoding_format": "float", "layers": depth, **more})

    return lambda draw: made(draw.choice(texts), draw.choice(layers))


def closed(servers: list[Server], args: argparse.Namespace) -> list[dict[str, Any]]:
    """Every server, number of clients and depth, in turns."""
    cases = [(server, clients, depth) for clients in CLIENTS for depth in DEPTHS for server in servers]
    cases = [case for case in cases if case[0].name != "infinity" or case[2] == "6"]
    rounds: dict[tuple[Server, int, str], list[list[Seen]]] = {case: [] for case in cases}
    for number in range(args.rounds):
        for case in cases:
            server, clients, depth = case
            loop = http_load.closed_loop(server.port, requests(DEPTHS[depth]), clients, args.seconds, number)
            rounds[case].append(asyncio.run(loop))
            assert {one.status for one in rounds[case][-1]} == {200}, f"{server.name} refused a few clients"
    return [
        {"server": server.name, "clients": clients, "layers": depth, **numbers(seen, args.seconds)}
        for (server, clients, depth), seen in rounds.items()
    ]


def numbers(rounds: list[list[Seen]], seconds: float) -> dict[str, Any]:
    """Requests answered per second, the median of rounds; percentiles of the latencies of all of them."""
    rates = [sum(one.status == 200 for one in seen) / max(seconds, max_end(seen)) for seen in rounds]
    latencies = [one.seconds * 1000 for seen in rounds for one in seen if one.status == 200]
    p50, p95, p99 = np.percentile(latencies or [float("nan")], [50, 95, 99]).round(3).tolist()
    statuses = Counter(str(one.status) for seen in rounds for one in seen)
    return {
        "requests_per_second": round(statistics.median(rates), 1),
        "rounds": [round(rate, 1) for rate in rates],
        **{"p50_ms": p50, "p95_ms": p95, "p99_ms": p99},
        "statuses": dict(statuses),
    }


def max_end(seen: list[Seen]) -> float:
    return max((one.due + one.seconds for one in seen), default=0.0)


def opened(servers: list[Server], capacity: float, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Poisson arrivals at shares of `capacity`, for every server that is not hopelessly behind."""
    rows = []
    for share in SHARES:
        for server in servers:
            rate = share * capacity
            times = http_load.poisson(lambda now, rate=rate: rate, args.seconds * 2, seed=1)
            seen = asyncio.run(
                http_load.open_loop(server.port, requests((6,), **timed(server, args.deadline_ms)), times)
            )
            rows.append(
                {"server": server.name, "share": share, "rate": round(rate, 1), **numbers([seen], args.seconds)}
            )
    return rows


def timed(server: Server, milliseconds: float) -> dict[str, object]:
    """A deadline, for a server that knows them."""
    return {"timeout_ms": milliseconds} if server.name.startswith("demitasse") else {}


def overload(stack: ExitStack, kind: str, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Arrivals that rise far beyond what all layers allow, with shedding and without, in turns."""
    options = ("--min-layers", "1")
    servers = [ours(stack, "demitasse --shed", "--shed", *options), ours(stack, "demitasse, no shedding")]
    more = {"input_type": "query", "timeout_ms": args.deadline_ms, "encoding_format": "base64"}
    asked, seen = requests((6,), QUERIES[kind], **more), {server: [] for server in servers}
    warm = asyncio.run(http_load.closed_loop(servers[1].port, requests((6,), QUERIES[kind]), 32, args.seconds))
    capacity = len(warm) / max_end(warm)
    low, high = (share * capacity for share in RAMP)
    for number in range(args.rounds):
        for server in servers:
            times = http_load.poisson(lambda now: low + (high - low) * now / args.ramp, args.ramp, seed=number)
            seen[server] += asyncio.run(http_load.open_loop(server.port, asked, times, number))
    facts = {"queries": kind, "capacity": round(capacity, 1)}
    return [{"server": server.name, **facts, **judged(found, args)} for server, found in seen.items()]


def judged(seen: list[Seen], args: argparse.Namespace) -> dict[str, Any]:
    """How many came in time, and how good the layers were that they got."""
    quality = qualities()
    answered = [one for one in seen if one.status == 200]
    in_time = [one for one in answered if one.seconds * 1000 <= args.deadline_ms]
    layers = Counter(one.layers for one in answered if one.layers is not None)
    return {
        "sent": len(seen),
        "in_time": len(in_time),
        "share_in_time": round(len(in_time) / max(1, len(seen)), 4),
        "statuses": dict(Counter(str(one.status) for one in seen)),
        "layers": {str(depth): layers[depth] for depth in sorted(layers)},
        "mean_quality": round(statistics.fmean(quality[one.layers] for one in answered), 4),
        "p95_ms": round(float(np.percentile([one.seconds * 1000 for one in answered], 95)), 2),
    }


def qualities() -> dict[int | None, float]:
    """The quality of each number of layers, as a share of all of them."""
    profile = json.loads((ROOT / "research" / "results" / "profile-built-in.json").read_text())
    rows = {row["cut"]: row["quality"] for row in profile["rows"] if row["vectors"] == "float32"}
    return {layers: rows[f"{layers}x384"] / rows["6x384"] for layers in range(7)}


def show(result: dict[str, Any]) -> None:
    for name, columns in (
        ("closed", ("clients", "layers", "server", "requests_per_second", "p50_ms", "p95_ms", "p99_ms")),
        ("open", ("share", "rate", "server", "requests_per_second", "p50_ms", "p95_ms", "p99_ms")),
        (
            "overload",
            (
                "queries",
                "server",
                "capacity",
                "sent",
                "in_time",
                "share_in_time",
                "mean_quality",
                "p95_ms",
                "statuses",
                "layers",
            ),
        ),
    ):
        if result.get(name):
            print(f"\n{name}\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
            for row in result[name]:
                print(f"| {' | '.join(str(row[column]) for column in columns)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="sentence-transformers folder for the peers; without it, demitasse alone")
    parser.add_argument("--infinity", help="the command infinity_emb of another environment")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ramp", type=float, default=30, help="seconds of each overload")
    parser.add_argument("--deadline-ms", type=float, default=200)
    parser.add_argument("--only", choices=["closed", "open", "overload"], action="append")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    parts = args.only or ["closed", "open", "overload"]
    options = {key: value for key, value in vars(args).items() if key in ("seconds", "rounds", "ramp", "deadline_ms")}
    result: dict[str, Any] = {"machine": machine(), "options": options}
    with ExitStack() as stack:
        own = ours(stack, "demitasse")
        servers = [own, *(peers(stack, args.model, args.infinity) if args.model else [])]
        if "closed" in parts:
            result["closed"] = closed(servers, args)
        warm = asyncio.run(http_load.closed_loop(own.port, requests((6,)), 32, max(1.0, args.seconds)))
        capacity = len(warm) / max_end(warm)
        result["capacity"] = round(capacity, 1)
        if "open" in parts:
            result["open"] = opened(servers, capacity, args)
    if "overload" in parts:
        result["overload"] = []
        for kind in QUERIES:
            with ExitStack() as stack:
                result["overload"] += overload(stack, kind, args)
    result["versions"] = versions()
    show(result)
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
