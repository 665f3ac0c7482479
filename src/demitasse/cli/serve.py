"""`demitasse serve`: the model behind an HTTP API that OpenAI's clients speak."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from demitasse.cli.options import REPEATABLE, DeviceOption, ModelArgument
from demitasse.errors import DataError

KEY_VARIABLE = "DEMITASSE_API_KEY"


def serve(  # noqa: PLR0913 - options of a command, each named when used
    model: ModelArgument = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 is every one of this machine.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 is any free one.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, max=256, help="Processes, each with the model in memory.")] = 1,
    name: Annotated[
        list[str] | None,
        typer.Option(help=f"Name that requests call the model; default: demitasse, or its own; {REPEATABLE}."),
    ] = None,
    api_key: Annotated[
        list[str] | None,
        typer.Option(help=f"Key that requests must have; others on this machine can see it here; {REPEATABLE}."),
    ] = None,
    api_key_file: Annotated[
        Path | None, typer.Option(help=f"File with one key per line. ${KEY_VARIABLE} does as well.")
    ] = None,
    cors: Annotated[
        list[str] | None,
        typer.Option(help=f"Origin of web pages that may use the server, such as https://example.org; {REPEATABLE}."),
    ] = None,
    shed: Annotated[
        bool, typer.Option("--shed", help="Under load, give queries fewer layers before turning any away.")
    ] = False,
    min_layers: Annotated[
        int | None,
        typer.Option(min=0, help="Fewest layers that a busy server gives a query; default: a third of the model's."),
    ] = None,
    shed_ms: Annotated[
        float, typer.Option(help="Time within which queries are to be answered that say none, in milliseconds.")
    ] = 250.0,
    profile: Annotated[
        Path | None,
        typer.Option(help="Profile of the model on this machine, as written by demitasse measure --json."),
    ] = None,
    timeout_ms: Annotated[
        float, typer.Option(help="Longest time for a request, in milliseconds; a request may ask for less.")
    ] = 30_000,
    max_inputs: Annotated[int, typer.Option(min=2, help="Most texts in one request.")] = 2048,
    max_tokens: Annotated[
        int, typer.Option(min=1, help="Most tokens in one request; four characters count as one.")
    ] = 300_000,
    max_bytes: Annotated[int, typer.Option(min=1, help="Largest body of a request, in bytes.")] = 4 << 20,
    max_queue_tokens: Annotated[
        int, typer.Option(min=1, help="Most tokens that wait; beyond it requests get 429.")
    ] = 500_000,
    max_queue_seconds: Annotated[float, typer.Option(help="Longest wait in the queue, in seconds.")] = 30.0,
    max_batch_tokens: Annotated[
        int | None, typer.Option(min=1, help="Most tokens computed at a time; default: what suits the device.")
    ] = None,
    client_seconds: Annotated[
        float, typer.Option(help="Time that a client may take to send its request, and leave its reply unread.")
    ] = 20.0,
    drain_seconds: Annotated[float, typer.Option(help="Time for open requests after SIGTERM.")] = 30.0,
    max_connections: Annotated[int, typer.Option(min=1, help="Most connections of one worker.")] = 1000,
    log_requests: Annotated[
        bool, typer.Option("--log-requests", help="Write a line per request to stderr: never texts or keys.")
    ] = False,
    threads: Annotated[int | None, typer.Option(min=1, help="Cores to use per worker; default: its share.")] = None,
    device: DeviceOption = None,
    max_seq_length: Annotated[
        int | None, typer.Option(help="Truncate texts to this many tokens; default: what the model takes.")
    ] = None,
) -> None:
    """Serve a model over HTTP to OpenAI's clients, with the cut chosen by each request."""
    from demitasse.extras import SERVE, need

    need("demitasse serve", SERVE)
    from demitasse.planning.profile_json import read_profile
    from demitasse.serving.engine import EngineOptions
    from demitasse.serving.keys import Keys, read_keys
    from demitasse.serving.limits import ServerLimits
    from demitasse.serving.options import ServeOptions
    from demitasse.serving.serve import serve as run

    keys = [*(api_key or ()), *(read_keys(api_key_file) if api_key_file is not None else ())]
    keys += [os.environ[KEY_VARIABLE]] if os.environ.get(KEY_VARIABLE) else []
    options = ServeOptions(
        model=model,
        names=_names(name),
        device=device,
        max_seq_length=max_seq_length,
        host=host,
        port=port,
        workers=workers,
        origins=_origins(cors),
        log_requests=log_requests,
        keys=Keys.of(keys),
        limits=ServerLimits(
            max_inputs=max_inputs,
            max_tokens=max_tokens,
            max_bytes=max_bytes,
            timeout_ms=timeout_ms,
            client_seconds=client_seconds,
            drain_seconds=drain_seconds,
            max_connections=max_connections,
        ),
        engine=EngineOptions(
            max_queue_tokens=max_queue_tokens,
            max_queue_seconds=max_queue_seconds,
            max_batch_tokens=max_batch_tokens,
            shed=shed,
            floor=min_layers,
            shed_seconds=shed_ms / 1000,
            threads=threads,
            profile=None if profile is None else read_profile(profile),
        ),
    )
    run(options, lambda line: typer.echo(line, err=True))


def _names(given: list[str] | None) -> tuple[str, ...]:
    for name in given or ():
        if not name or name != name.strip() or not name.isprintable():
            raise DataError(f"--name {name!r} cannot be used; write a name such as my-model")
    return tuple(given or ())


def _origins(given: list[str] | None) -> tuple[str, ...]:
    for origin in given or ():
        scheme, _, host = origin.partition("://")
        if origin != "*" and (scheme not in ("http", "https") or not host or "/" in host):
            raise DataError(f"--cors {origin!r} is not an origin; write https://example.org, or * for every page")
    return tuple(given or ())
