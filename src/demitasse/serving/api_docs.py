"""The OpenAPI document for the model that is served, and a page that shows it, for which nothing is fetched."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from typing import Any

from demitasse._version import __version__
from demitasse.serving.calls import Call, Endpoint
from demitasse.serving.limits import ServerLimits
from demitasse.serving.offer import Offer
from demitasse.serving.replies import Reply, json_reply
from demitasse.serving.request_fields import Schema, object_schema

_ERROR: Schema = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
            "required": ["message", "type", "param", "code"],
        }
    },
    "required": ["error"],
}
_REFUSALS = {
    "400": "The request cannot be read, or asks for what the model does not offer.",
    "401": "No API key that the server knows.",
    "404": "No such model.",
    "408": "The body came too slowly.",
    "413": "Too many bytes, inputs or tokens.",
    "415": "The body is not plain JSON.",
    "429": "More is waiting than the server can compute in time; Retry-After says when to try again.",
    "500": "A mistake of the server.",
    "503": "The model is being loaded, or the server is about to stop.",
    "504": "No answer in time.",
}
_WITHOUT_BODY = ("401", "500", "503")
_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; } td, th { text-align: left; vertical-align: top; padding: .2rem 1rem .2rem 0; }
pre { overflow-x: auto; padding: .6rem; background: color-mix(in srgb, currentColor 8%, transparent); }
code, pre { font-size: .9em; } h2 { margin-top: 2.5rem; }
"""


def docs_of(endpoints: Sequence[Endpoint]) -> tuple[Endpoint, ...]:
    """The endpoints that describe `endpoints`: a document for programs and a page for people."""

    async def document(call: Call) -> Reply:
        return json_reply(openapi(endpoints, call.service.model.offer, call.service.limits))

    async def page(call: Call) -> Reply:
        body = docs_page(endpoints, call.service.model.offer, call.service.limits)
        headers = (
            ("content-type", "text/html; charset=utf-8"),
            ("content-security-policy", "default-src 'none'; style-src 'unsafe-inline'"),
        )
        return Reply(body.encode("utf-8", "replace"), headers=headers)

    return (
        Endpoint("GET", ("/openapi.json",), "This document.", document, {"type": "object"}, needs_key=False),
        Endpoint("GET", ("/docs",), "A page that shows it.", page, {}, kind="text/html", needs_key=False),
    )


def openapi(endpoints: Sequence[Endpoint], offer: Offer, limits: ServerLimits) -> dict[str, Any]:
    """What the API takes and gives, as OpenAPI 3.1."""
    paths: dict[str, Any] = {}
    for endpoint in endpoints:
        operation: dict[str, Any] = {
            "summary": endpoint.summary,
            "operationId": endpoint.answer.__name__,
            "responses": _responses(endpoint),
        }
        path = endpoint.paths[0].replace(":path", "")
        if "{id}" in path:
            schema = {"type": "string", "pattern": offer.name_pattern()}
            operation["parameters"] = [{"name": "id", "in": "path", "required": True, "schema": schema}]
        if endpoint.fields is not None:
            content = {"schema": object_schema(endpoint.fields(offer, limits)), "example": endpoint.example}
            operation["requestBody"] = {"required": True, "content": {"application/json": content}}
        if not endpoint.needs_key:
            operation["security"] = []
        paths.setdefault(path, {})[endpoint.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "demitasse", "version": __version__, "description": f"{offer.sentence()}."},
        "paths": paths,
        "components": {
            "schemas": {"Error": _ERROR},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"key": []}],
    }


def _responses(endpoint: Endpoint) -> dict[str, Any]:
    statuses = (
        _REFUSALS
        if endpoint.fields is not None
        else [*_WITHOUT_BODY, *(["400", "404"] if "{" in endpoint.paths[0] else [])]
    )
    refused = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    answer = {"description": endpoint.summary, "content": {endpoint.kind: {"schema": endpoint.reply}}}
    return {"200": answer} | {status: {"description": _REFUSALS[status], "content": refused} for status in statuses}


def docs_page(endpoints: Sequence[Endpoint], offer: Offer, limits: ServerLimits) -> str:
    """The document as a page without scripts."""
    parts = [
        "<!doctype html><html lang=en><head><meta charset=utf-8>",
        f"<meta name=viewport content='width=device-width'><title>{escape(offer.name)}: API</title>",
        f"<style>{_STYLE}</style></head><body><h1>{escape(offer.name)}</h1><p>{escape(offer.sentence())}.</p>",
        "<p>For programs: <a href=openapi.json>openapi.json</a>. Errors have OpenAI's shape.</p>",
    ]
    for endpoint in endpoints:
        path = endpoint.paths[0].replace(":path", "")
        parts.append(f"<h2><code>{endpoint.method} {escape(path)}</code></h2><p>{escape(endpoint.summary)}</p>")
        if endpoint.fields is not None:
            parts.append(_fields_table(endpoint, offer, limits))
            example = json.dumps(endpoint.example, ensure_ascii=False)
            command = f"curl URL{path} -H 'content-type: application/json' \\\n  -d '{example}'"
            parts.append(f"<pre>{escape(command, quote=False)}</pre>")
        parts.append(
            f"<details><summary>Reply</summary><pre>{escape(json.dumps(endpoint.reply, indent=1))}</pre></details>"
        )
    return "\n".join([*parts, "</body></html>"])


def _fields_table(endpoint: Endpoint, offer: Offer, limits: ServerLimits) -> str:
    assert endpoint.fields is not None
    rows = "".join(
        f"<tr><td><code>{escape(name)}</code>{' (required)' if field.required else ''}</td>"
        f"<td>{escape(field.about)}</td></tr>"
        for name, field in endpoint.fields(offer, limits).items()
    )
    return f"<table><tr><th>field</th><th>meaning</th></tr>{rows}</table>"
