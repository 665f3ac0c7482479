"""`Call`: one request, as an endpoint sees it; `Endpoint`: a path, what answers it, and how it is documented."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from demitasse.serving.api_errors import ApiError
from demitasse.serving.body import BodyReader, check_headers, parsed
from demitasse.serving.limits import ServerLimits
from demitasse.serving.offer import Offer
from demitasse.serving.replies import Reply, Stream
from demitasse.serving.request_fields import Field, Schema, read_fields
from demitasse.serving.service import Service

Fields = Mapping[str, Field]


@dataclass
class Call:
    """One request to an endpoint."""

    service: Service
    headers: Mapping[bytes, bytes]
    body: BodyReader
    arrived: float  # by the service's clock
    request_id: str
    path_values: Mapping[str, Any]
    notes: dict[str, object] = field(default_factory=dict)  # for the log: numbers of the answer, nothing of the texts

    async def read(self, fields: Callable[[Offer, ServerLimits], Fields]) -> dict[str, Any]:
        """The fields of the JSON body."""
        check_headers(self.headers)
        offer = self.service.model.offer
        known = fields(offer, self.service.limits)
        try:
            return read_fields(known, parsed(await self.body.read()))
        except ApiError as refused:
            if refused.status == 400 and refused.param in offer.choices():
                raise offer.refused(refused.message, refused.param) from None
            raise


@dataclass(frozen=True)
class Endpoint:
    """A path that is answered."""

    method: str
    paths: tuple[str, ...]  # the first is in the document; the others are spellings that clients use
    summary: str
    answer: Callable[[Call], Awaitable[Reply | Stream]]
    reply: Schema
    fields: Callable[[Offer, ServerLimits], Fields] | None = None
    example: Mapping[str, Any] | None = None
    kind: str = "application/json"  # of the reply
    needs_key: bool = True
