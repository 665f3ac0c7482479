"""The outermost layer: every request gets an id, is timed, counted and logged, and whatever goes wrong is one reply.

No text, no key and no message of an error is ever logged: a line has the path, the status, times and counts.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import sys
import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from demitasse.errors import DeviceError, FolderError
from demitasse.serving.api_errors import ApiError, internal_error
from demitasse.serving.asking import milliseconds
from demitasse.serving.body import BodyReader, ClientGone
from demitasse.serving.calls import Call, Endpoint
from demitasse.serving.replies import Header, Reply, Stream
from demitasse.serving.service import Service

Message = MutableMapping[str, Any]
_REQUEST_ID = re.compile(rb"[\w.:-]{1,64}", re.ASCII)
_ALWAYS: tuple[Header, ...] = (("x-content-type-options", "nosniff"),)


class Front:
    """An ASGI application around the routes."""

    def __init__(self, routes: ASGIApp, service: Service) -> None:
        self._routes, self._service = routes, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, whatever happens."""
        if scope["type"] != "http":
            return
        service, arrived = self._service, self._service.clock()
        headers = dict(scope["headers"])
        given = headers.get(b"x-request-id", b"")
        request_id = given.decode() if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
        limits = service.limits
        body = BodyReader(receive, headers, limits.max_bytes, limits.client_seconds, service.room)
        call = Call(service, headers, body, arrived, request_id, {})
        scope["demitasse.call"] = call
        status = 0

        async def send_more(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                spent = milliseconds(service.clock() - arrived)
                message["headers"] = [
                    *message["headers"],
                    (b"x-request-id", request_id.encode()),
                    (b"x-total-time", spent.encode()),
                    *_encoded(_ALWAYS),
                ]
            await send(message)

        connection = scope.get("state", {}).get("connection")
        if connection is not None:
            connection.serves(asyncio.current_task())
        try:
            await self._answered(scope, call, send_more)
        except asyncio.CancelledError:
            if connection is None or not connection.lost:
                raise
        except ClientGone:
            pass
        finally:
            if connection is not None:
                connection.serves(None)
            body.release()
            self._count(scope, call, status or 499)  # 499: the client left, as nginx writes it

    async def _answered(self, scope: Scope, call: Call, send: Callable[[Message], Awaitable[None]]) -> None:
        started = False

        async def send_and_note(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._routes(scope, call.body.receive, send_and_note)
        except (ClientGone, asyncio.CancelledError):
            raise
        except Exception as problem:
            note(problem, call.request_id)
            if not started:
                await send_reply(internal_error().reply(), send_and_note)

    def _count(self, scope: Scope, call: Call, status: int) -> None:
        path = call.notes.pop("path", "other")
        spent = call.service.clock() - call.arrived
        metrics = call.service.metrics
        metrics.add("demitasse_requests_total", path=str(path), status=str(status))
        metrics.observe("demitasse_request_seconds", spent, path=str(path))
        if call.service.log is not None:
            known = "".join(f" {name}={value}" for name, value in call.notes.items())
            method = scope["method"] if scope["method"].isalpha() else "?"
            call.service.log(f"{method} {path} {status} ms={milliseconds(spent)}{known} id={call.request_id}")


class Answering:
    """An endpoint as an ASGI application."""

    def __init__(self, endpoint: Endpoint, path: str) -> None:
        self._endpoint, self._path = endpoint, path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it."""
        call: Call = scope["demitasse.call"]
        call.path_values = scope["path_params"]
        call.notes["path"] = self._path
        try:
            if self._endpoint.needs_key:
                call.service.keys.check(call.headers)
            reply = await self._endpoint.answer(call)
        except ApiError as refused:
            reply = await refusal(refused, call)
        except (FolderError, DeviceError) as problem:  # a broken model: not the fault of whoever asked
            note(problem, call.request_id, str(problem))
            reply = internal_error().reply()
        except ClientGone:
            raise
        except Exception as problem:
            note(problem, call.request_id)
            reply = internal_error().reply()
        if isinstance(reply, Stream):
            await _send_stream(reply, send)
        else:
            await send_reply(reply, send)


async def refusal(refused: ApiError, call: Call) -> Reply:
    """The reply to a request that is refused, once the rest of its body is out of the way."""
    reply = refused.reply()
    if call.body.ended or await call.body.discard():
        return reply
    return Reply(reply.body, reply.status, (*reply.headers, ("connection", "close")))


async def refuse_route(request: Request, problem: Exception) -> Response:
    """The reply where there is no such path, or not for this method."""
    assert isinstance(problem, HTTPException)
    allowed = tuple((problem.headers or {}).items())
    if problem.status_code == 405:
        words = f"this path does not take {request.method[:20]!a}; it takes {dict(allowed).get('Allow', 'others')}"
    else:
        words = "there is no such path here; /docs lists those that there are"
    call: Call = request.scope["demitasse.call"]
    reply = await refusal(ApiError(problem.status_code, words, headers=allowed), call)
    return Response(reply.body, reply.status, dict(reply.headers))


async def send_reply(reply: Reply, send: Callable[[Message], Awaitable[None]]) -> None:
    """Send a whole answer."""
    headers = _encoded(reply.headers)
    if reply.status != 304:  # which has no body, and whose length would be that of another
        headers.append((b"content-length", str(len(reply.body)).encode()))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})


async def _send_stream(stream: Stream, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": _encoded(stream.headers)})
    async for part in stream.parts:
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def note(problem: Exception, request_id: str, words: str = "") -> None:
    """Write to the log what went wrong and where, without the words of the error: they may quote a text."""
    place = traceback.extract_tb(problem.__traceback__)[-1]
    where = f"{place.filename.rpartition('/')[2]}:{place.lineno}"
    sys.stderr.write(f"error: {type(problem).__name__} at {where} in request {request_id}{words and ': ' + words}\n")


def _encoded(headers: Any) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode()) for name, value in headers]
