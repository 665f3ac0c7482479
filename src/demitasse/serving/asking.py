"""From the fields of a request to a question for the engine, and from its refusals to statuses of HTTP."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from demitasse.errors import CutError, DataError
from demitasse.serving.api_errors import ApiError, bad_request, not_ready, too_large
from demitasse.serving.calls import Call
from demitasse.serving.engine import Answer, Asked
from demitasse.serving.limits import ServerLimits
from demitasse.serving.offer import INPUT_TYPES, Offer
from demitasse.serving.refusals import DeadlineMissed, QueueFull, ShuttingDown, TextTooLong, TooManyTokens
from demitasse.serving.replies import Header
from demitasse.serving.request_fields import Choice, Field, Flag, Number, Text, Whole


@lru_cache(maxsize=8)
def cut_fields(offer: Offer, limits: ServerLimits) -> Mapping[str, Field]:
    """The fields of every request for vectors that say at which cut and within which time."""
    full = offer.full
    return {
        "model": Text(
            f"Name of the model; the cut may be part of it, as in {offer.named(full)}. Default: {offer.name}.",
            pattern=offer.name_pattern(),
        ),
        "dimensions": Whole(f"Dims to keep; default: all {full.dims}.", 1, full.dims),
        "layers": Whole(f"Layers to run; default: all {full.layers}.", 0, full.layers),
        "min_layers": Whole(
            "As few layers as you accept when the server is busy; default: what the server was started with.",
            0,
            full.layers,
        ),
        "timeout_ms": Number(
            "Milliseconds after which the answer is of no use to you. A busy server gives a query fewer layers to meet "
            "it, or answers 504.",
            limits.timeout_ms,
        ),
        "truncate": Flag(f"Whether texts of more than {offer.max_tokens} tokens are truncated; default: true."),
    }


KIND_FIELD = Choice(
    "What the texts are: query or document, for models that have a prompt for each. Queries may be given fewer layers "
    "by a busy server, documents never.",
    INPUT_TYPES,
)


async def ask(
    call: Call, given: Mapping[str, Any], texts: Sequence[str] | Sequence[Sequence[int]], param: str, kind: str | None
) -> Answer:
    """The vectors of `texts` at the cut that the fields of a request say."""
    service = call.service
    model = service.model
    cut = model.offer.cut(given.get("model"), given.get("layers"), given.get("dimensions"))
    floor = None if "min_layers" not in given else min(given["min_layers"], cut.layers)
    service.limits.check_tokens(texts, param)
    spent = service.clock() - call.arrived
    # The client's own deadline decides how many layers a query gets; ours only ends what takes far too long.
    own = given["timeout_ms"] / 1000 - spent if "timeout_ms" in given else None
    asked = Asked(texts, cut, kind, floor, own, given.get("truncate", True))  # type: ignore[arg-type]
    with _as_statuses(param):
        if own is not None and own <= 0:
            raise DeadlineMissed(f"the request took {spent:.3f} seconds to arrive, longer than its timeout_ms")
        try:
            async with asyncio.timeout(service.limits.timeout_ms / 1000 - spent):
                answer = await model.engine.embed(asked)
        except DeadlineMissed:
            raise
        except TimeoutError:
            raise DeadlineMissed(
                f"no answer within {service.limits.timeout_ms / 1000:g} seconds, the most this server takes; send "
                "fewer texts, or ask for fewer layers"
            ) from None
    _count(call, answer, len(texts))
    return answer


def answer_headers(answer: Answer) -> list[Header]:
    """What every reply with vectors says about itself: the cut that was used, texts truncated, and milliseconds."""
    times = answer.times
    return [
        ("x-demitasse-cut", str(answer.cut)),
        ("x-demitasse-truncated", str(answer.truncated)),
        ("x-compute-tokens", str(answer.tokens)),
        ("x-compute-time", milliseconds(times.total)),
        ("x-tokenization-time", milliseconds(times.tokenize)),
        ("x-queue-time", milliseconds(times.queue)),
        ("x-inference-time", milliseconds(times.compute)),
    ]


def milliseconds(seconds: float) -> str:
    """Seconds as a header says them.

    >>> milliseconds(0.0012345)
    '1.234'
    """
    return f"{seconds * 1000:.3f}"


def _count(call: Call, answer: Answer, texts: int) -> None:
    metrics, layers = call.service.metrics, str(answer.cut.layers)
    metrics.add("demitasse_inputs_total", texts, layers=layers)
    metrics.add("demitasse_tokens_total", answer.tokens)
    metrics.add("demitasse_truncated_total", answer.truncated)
    metrics.observe("demitasse_embed_seconds", answer.times.total, layers=layers)
    metrics.observe("demitasse_queue_seconds", answer.times.queue, layers=layers)
    call.notes.update(cut=answer.cut, inputs=texts, tokens=answer.tokens, truncated=answer.truncated)


@contextmanager
def _as_statuses(param: str) -> Iterator[None]:
    try:
        yield
    except QueueFull as full:
        # OpenAI's clients wait for the milliseconds, all others for whole seconds.
        after = ("retry-after", str(max(1, math.ceil(full.retry_after))))
        precise = ("retry-after-ms", str(max(1, math.ceil(1000 * full.retry_after))))
        raise ApiError(429, str(full), code="rate_limit_exceeded", headers=(after, precise)) from None
    except DeadlineMissed as late:
        # To try again would only add to the load: OpenAI's clients do so unless they are told not to.
        raise ApiError(504, str(late), code="deadline_exceeded", headers=(("x-should-retry", "false"),)) from None
    except TooManyTokens as large:
        raise too_large(str(large), param) from None
    except ShuttingDown as stopping:
        raise not_ready(str(stopping)) from None
    except TextTooLong as long:
        raise bad_request(str(long), param, "context_length_exceeded") from None
    except (DataError, CutError) as problem:
        raise bad_request(str(problem), param) from None
