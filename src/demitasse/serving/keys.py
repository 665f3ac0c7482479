"""API keys: compared in constant time, kept as hashes, and never logged."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from demitasse.errors import DataError
from demitasse.host.text_lines import read_lines
from demitasse.serving.api_errors import ApiError

_SHORTEST = 8  # characters


@dataclass(frozen=True)
class Keys:
    """The keys a server accepts; with none, everybody may use it."""

    digests: frozenset[bytes] = field(default_factory=frozenset, repr=False)

    @classmethod
    def of(cls, keys: Iterable[str]) -> Keys:
        """These keys, each of which must be long enough to be one and fit into a header."""
        digests = set()
        for key in keys:
            if len(key) < _SHORTEST or not key.isascii() or not key.isprintable() or " " in key:
                raise DataError(
                    f"an API key must have at least {_SHORTEST} letters, digits or signs of ASCII and no spaces; "
                    "one of those given does not"
                )
            digests.add(_digest(key.encode()))
        return cls(frozenset(digests))

    def check(self, headers: Mapping[bytes, bytes]) -> None:
        """Refuse a request that has none of the keys."""
        if not self.digests:
            return
        scheme, _, key = headers.get(b"authorization", b"").partition(b" ")
        given = _digest(key.strip())
        # Hashes are of one length, and all are compared, so the time says nothing about any of them.
        if not sum(hmac.compare_digest(given, known) for known in self.digests) or scheme.lower() != b"bearer":
            raise ApiError(
                401,
                "this server needs an API key, and the request has none that it knows; send the header "
                "authorization: Bearer KEY",
                code="invalid_api_key",
                headers=(("www-authenticate", "Bearer"),),
            )


def read_keys(path: Path) -> list[str]:
    """The keys in a file, one per line; empty lines and lines that start with # are left out."""
    keys = [line.strip() for line in read_lines(path)]
    found = [key for key in keys if key and not key.startswith("#")]
    if not found:
        raise DataError(f"{path} has no API key; write one per line")
    return found


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
