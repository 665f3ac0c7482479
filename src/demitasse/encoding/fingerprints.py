"""A name for what makes an encoder's vectors: its weights, its read-outs, and how it reads a text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

import numpy as np

from demitasse.encoding.reader import Reader


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
