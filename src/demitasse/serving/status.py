"""How the server is: `GET /health`, `/ready`, `/metrics`, `/load` and `/v1/models`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from demitasse.serving.api_errors import ApiError, not_ready
from demitasse.serving.calls import Call, Endpoint
from demitasse.serving.metrics import merged, text
from demitasse.serving.replies import Reply, Stream, json_reply
from demitasse.serving.request_fields import Schema
from demitasse.serving.service import Service

MOST_STREAMS = 16  # of live load, in one process
_EVERY = 0.5  # seconds between two events of such a stream
_EVENT_HEADERS = (
    ("content-type", "text/event-stream"),
    ("cache-control", "no-store"),
    ("x-accel-buffering", "no"),  # nginx would otherwise hold them back
)


async def health(call: Call) -> Reply:
    """The process is alive and answers, also while it loads its model and while it stops."""
    return json_reply({"status": "ok", "stage": call.service.stage})


async def ready(call: Call) -> Reply:
    """The model is loaded and requests are welcome."""
    if call.service.stage != "ready":
        raise not_ready(
            "the server is not ready: "
            + {"starting": "its model is being loaded"}.get(call.service.stage, "it is about to stop")
        )
    return json_reply({"status": "ready", "model": call.service.model.offer.name})


async def metrics(call: Call) -> Reply:
    """What all workers have counted, for Prometheus."""
    body = text(call.service.snapshots()).encode()
    return Reply(body, headers=(("content-type", "text/plain; version=0.0.4; charset=utf-8"),))


async def models(call: Call) -> Reply:
    """The model under its names, and the cuts of it that were measured."""
    return json_reply({"object": "list", "data": call.service.model.offer.models()})


async def model(call: Call) -> Reply:
    """One model, at any cut."""
    return json_reply(call.service.model.offer.model(call.path_values["id"]))


async def load(call: Call) -> Reply | Stream:
    """What the server is doing now, once or, as server-sent events, until the client leaves."""
    service = call.service
    if b"text/event-stream" not in call.headers.get(b"accept", b""):
        return json_reply(_load(service))
    if service.streams >= MOST_STREAMS:
        raise ApiError(503, f"{MOST_STREAMS} clients are watching already; ask for /load without a stream")
    return Stream(_events(service), _EVENT_HEADERS)


async def _events(service: Service) -> AsyncIterator[bytes]:
    service.streams += 1
    try:
        while service.stage != "stopping":
            yield f"data: {json.dumps(_load(service))}\n\n".encode()
            await asyncio.sleep(_EVERY)
    finally:
        service.streams -= 1


def _load(service: Service) -> dict[str, Any]:
    """The numbers of /metrics that change by the second, without labels: sums over all workers."""
    total = merged(service.snapshots())
    named = {name: sum(value for value in total.get(f"demitasse_{name}", {}).values()) for name in _NUMBERS}
    layers = {
        dict(labels)["layers"]: count for labels, count in sorted(total.get("demitasse_inputs_total", {}).items())
    }
    return {**named, "inputs_by_layers": layers}


_NUMBERS = (
    "queue_requests",
    "queue_tokens",
    "queue_wait_seconds",
    "running_batches",
    "allowed_layers",
    "connections",
    "ready",
    "requests_total",
    "tokens_total",
    "shed_requests_total",
    "shed_layers_total",
    "refused_total",
)
_STATUS: Schema = {"type": "object", "properties": {"status": {"type": "string"}}, "required": ["status"]}
_MODEL: Schema = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "object": {"const": "model"},
        "created": {"type": "integer"},
        "owned_by": {"type": "string"},
        "layers": {"type": "integer"},
        "dimensions": {"type": "integer"},
        "held_out": {"type": "object", "additionalProperties": {"type": "number"}},
    },
    "required": ["id", "object", "created", "owned_by", "layers", "dimensions"],
}
_MODELS: Schema = {
    "type": "object",
    "properties": {"object": {"const": "list"}, "data": {"type": "array", "items": _MODEL}},
    "required": ["object", "data"],
}
_LOAD: Schema = {
    "type": "object",
    "properties": {name: {"type": "number"} for name in _NUMBERS}
    | {"inputs_by_layers": {"type": "object", "additionalProperties": {"type": "number"}}},
    "required": [*_NUMBERS, "inputs_by_layers"],
}
STATUS = (
    Endpoint("GET", ("/health",), "Whether the process is alive.", health, _STATUS, needs_key=False),
    Endpoint("GET", ("/ready",), "Whether the model is loaded.", ready, _STATUS, needs_key=False),
    Endpoint("GET", ("/metrics",), "Counters for Prometheus.", metrics, {"type": "string"}, kind="text/plain"),
    Endpoint("GET", ("/v1/models",), "The model, and the cuts of it that were measured.", models, _MODELS),
    Endpoint("GET", ("/v1/models/{id:path}",), "One model, at any cut.", model, _MODEL),
    Endpoint("GET", ("/load",), "What the server is doing now; also as server-sent events.", load, _LOAD),
)
