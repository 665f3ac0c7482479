"""Fingerprints: a name for what makes an encoder's vectors, that is its weights, readouts and how it reads a text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

import numpy as np

from demitasse.encoding.reader import Reader


def fingerprint(facts: object, arrays: Iterable[tuple[str, Any]] = ()) -> str:
    """The hex sha256 of plain facts and of named arrays, in order.

    >>> fingerprint({"full": "3x32"})[:16]
    'dceabcaeaedebf04'
    """
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for name, array in arrays:
        values = np.ascontiguousarray(array)
        # What follows has a length that this says, so no two lists of arrays are the same bytes.
        digest.update(json.dumps(["array", name, values.dtype.str, values.shape]).encode() + b"\n")
        digest.update(values.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def reading(reader: Reader, tokenizer: str) -> dict[str, Any]:
    """Everything about how texts are read that changes a vector; `tokenizer` is the tokenizer as JSON."""
    written = json.loads(tokenizer)
    # Truncation and padding are set each time a tokenizer is loaded.
    parts = {part: value for part, value in written.items() if part not in ("truncation", "padding")}
    side = (written.get("truncation") or {}).get("direction", "Right")
    return {
        **({} if side == "Right" else {"truncated": side}),
        "tokenizer": parts,
        "max_tokens": reader.max_tokens,
        "prompts": dict(reader.prompts),
        "default_prompt": reader.default_prompt,
        "lowercase": reader.lowercase,
        "empty_id": reader.empty_id,
    }
