"""A name for what makes an encoder's vectors: its weights, its read-outs, and how it reads a text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from demitasse.tokens import Reader

if TYPE_CHECKING:
    from demitasse.torch_encoder import TorchEncoder


def fingerprint(facts: object, arrays: Iterable[tuple[str, Any]] = ()) -> str:
    """The hex sha256 of plain facts and of named arrays, in their order.

    >>> fingerprint({"full": "3x32"})[:16]
    'dceabcaeaedebf04'
    """
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for name, array in arrays:
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def torch_fingerprint(encoder: TorchEncoder) -> str:
    """The fingerprint of an encoder on torch."""
    source = encoder.reader.source
    backend = getattr(source, "backend_tokenizer", None)
    tokenizer = json.dumps(source.get_vocab()) if backend is None else backend.to_str()
    steps = [getattr(step, "activation", "normalize") for step in encoder.head]
    facts = [encoder.precision, str(encoder.full), repr(encoder.pooling), steps, reading(encoder.reader, tokenizer)]
    return fingerprint(facts, _weights(encoder))


def reading(reader: Reader, tokenizer: str) -> dict[str, Any]:
    """How texts are read, as far as it changes a vector; `tokenizer` is the JSON form of one."""
    written = json.loads(tokenizer)
    # Whoever loads a tokenizer tells it anew where to cut off and how to pad.
    parts = {part: value for part, value in written.items() if part not in ("truncation", "padding")}
    return {
        "tokenizer": parts,
        "max_tokens": reader.max_tokens,
        "prompts": dict(reader.prompts),
        "default_prompt": reader.default_prompt,
        "lowercase": reader.lowercase,
        "empty_id": reader.empty_id,
    }


def _weights(encoder: TorchEncoder) -> Iterator[tuple[str, Any]]:
    """One after the other: a large model is never held twice."""
    named = sorted(encoder.backbone.model.state_dict().items())
    for index, step in enumerate(encoder.head):
        named += [(f"head {index} {part}", getattr(step, part, None)) for part in ("weight", "bias")]
    yield from ((name, tensor.detach().float().cpu().numpy()) for name, tensor in named if tensor is not None)
    for depth, exit_ in sorted(encoder.exits.items()):
        yield from ((f"exit {depth}", exit_.weight), (f"exit {depth} bias", exit_.bias))
