"""Queries to measure an index with: words from the middle of its texts, encoded as queries.

Vectors of the index itself would be too easy: a text lies closer to its neighbours than a question does. The queries
are kept in the catalog, so that an index can be measured again without its model.
"""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import Any

import numpy as np

from demitasse.encoding.encoder import Encoder
from demitasse.encoding.scan_kernels import Floats
from demitasse.encoding.vectors import restore, store
from demitasse.errors import FolderError
from demitasse.search.catalog import CATALOG, Catalog
from demitasse.search.snapshot import Snapshot

QUERIES = "queries"  # the setting of the catalog that holds them
COUNT = 64
LEAST = 1000  # texts, of which fewer are not worth measuring
_WORDS, _CHARACTERS = 10, 20


def sample_queries(snapshot: Snapshot, catalog: Catalog, encoder: Encoder) -> Floats:
    """Queries of texts that are spread over the index, at the cut of `encoder`."""
    places = np.arange(snapshot.rows) if snapshot.living is None else np.flatnonzero(snapshot.living)
    chosen = places[np.unique(np.linspace(0, len(places) - 1, COUNT).astype(np.int64))]
    documents = catalog.documents(snapshot.rows_at(chosen))
    return encoder.encode_query([middle(one.text) for one in documents.values()], progress=False)


def middle(text: str) -> str:
    """A few words from the middle of a text, and never more than half of it.

    >>> middle("One model for server, laptop and phone, cut to any size.")
    'server, laptop and phone, cut'
    """
    words = text.split()
    if len(words) < 4:
        size = max(1, min(_CHARACTERS, len(text) // 2))
        return text[(len(text) - size) // 2 :][:size]
    size = min(_WORDS, len(words) // 2)
    return " ".join(words[(len(words) - size) // 2 :][:size])


def as_plain(queries: Floats) -> dict[str, Any]:
    """Queries as plain values for the catalog, in int8."""
    return {"dims": queries.shape[1], "int8": base64.b64encode(store(queries, "int8").tobytes()).decode()}


def of_plain(plain: Any, folder: Path) -> Floats | None:
    """What `as_plain` gave; `None` if there are none."""
    if plain is None:
        return None
    try:
        stored = np.frombuffer(base64.b64decode(plain["int8"], validate=True), np.int8).reshape(-1, plain["dims"])
        return restore(stored, "int8")
    except (KeyError, TypeError, ValueError, binascii.Error):
        raise FolderError(
            f"{folder / CATALOG} has queries that cannot be read; run demitasse index rebuild {folder} to make new ones"
        ) from None
