"""The application: every endpoint as a route, for a service that may still be loading its model."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route
from starlette.types import ASGIApp

from demitasse.serving.api_docs import docs_of
from demitasse.serving.calls import Endpoint
from demitasse.serving.embeddings import EMBEDDINGS
from demitasse.serving.front import Answering, Front, refuse_route
from demitasse.serving.playground import PLAYGROUND
from demitasse.serving.rerank import RERANK
from demitasse.serving.service import Service
from demitasse.serving.similarity import SIMILARITY
from demitasse.serving.status import STATUS
from demitasse.serving.tokenize import TOKENIZE

_API: tuple[Endpoint, ...] = (EMBEDDINGS, RERANK, SIMILARITY, TOKENIZE, *STATUS)
ENDPOINTS = (*_API, *docs_of(_API), *PLAYGROUND)
# What a web page may read besides the body.
_SHOWN = [
    "x-demitasse-cut",
    "x-demitasse-query-cut",
    "x-demitasse-truncated",
    "x-compute-tokens",
    "x-compute-time",
    "x-tokenization-time",
    "x-queue-time",
    "x-inference-time",
    "x-total-time",
    "x-request-id",
    "retry-after",
    "retry-after-ms",
]


def application(service: Service) -> ASGIApp:
    """The server as an ASGI application."""
    routes = [
        Route(path, Answering(endpoint, endpoint.paths[0]), methods=[endpoint.method])
        for endpoint in ENDPOINTS
        for path in endpoint.paths
    ]
    inner: ASGIApp = Starlette(routes=routes, exception_handlers={HTTPException: refuse_route})
    if service.origins:
        # Outside the check of keys: a browser asks without one whether it may send one.
        inner = CORSMiddleware(
            inner,
            allow_origins=service.origins,
            allow_methods=("GET", "POST"),
            allow_headers=("*",),  # those that are asked for, authorization and OpenAI's own among them
            expose_headers=_SHOWN,
            max_age=3600,
        )
    return Front(inner, service)
