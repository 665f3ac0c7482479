"""Qdrant: `QdrantCollection`, texts in a collection of Qdrant, on a server, in a folder or in memory.

from qdrant_client import QdrantClient
from demitasse.integrations.qdrant import QdrantCollection

collection = QdrantCollection.open(QdrantClient(path="qdrant"), "docs", dt.load())
collection.add(["a ristretto", "a lungo"])
collection.search("a small cup", k=1)
"""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from demitasse.arguments import whole
from demitasse.encoding.encoder import Encoder
from demitasse.errors import DataError, shown
from demitasse.extras import QDRANT, need
from demitasse.integrations.stamps import KEY, Stamp, Stamped, Store
from demitasse.search.documents import NewDocument, new_documents, pieces, wanted_ids
from demitasse.search.filters import Where, check_where
from demitasse.search.hits import Hit

try:
    from qdrant_client import AsyncQdrantClient, QdrantClient, models
except ImportError:
    need(__name__, QDRANT)
    raise

_OURS = uuid.UUID("5f0c5e0e-0d5c-4b1e-9d0a-0f5f6f0a7c11")  # makes a point's id of any string
_PIECE = 256  # points that are sent together


class _Collection(Stamped):
    """What is sent for a collection, whichever client sends it."""

    def _points(self, piece: Sequence[NewDocument]) -> tuple[list[str], list[models.PointStruct]]:
        ids, vectors = self._encoded(piece)
        points = [
            models.PointStruct(
                id=point_id(id_),
                vector=vector,
                payload={"id": id_, "text": one.text, "metadata": json.loads(one.metadata or "{}")},
            )
            for id_, one, vector in zip(ids, piece, vectors.tolist(), strict=True)
        ]
        return ids, points

    def _query(self, query: str, k: int, where: Where | models.Filter | None) -> dict[str, Any]:
        chosen = where if where is None or isinstance(where, models.Filter) else filter_of(where)
        vector = self.encoders.query_vectors([query])[0]
        return {"query": vector, "limit": whole("k", k, least=1), "query_filter": chosen, "with_payload": True}


class QdrantCollection(_Collection):
    """Texts with their vectors in a collection of Qdrant; made by `QdrantCollection.open`.

    >>> import demitasse as dt
    >>> collection = QdrantCollection.open(QdrantClient(":memory:"), "docs", dt.load())
    >>> collection.add(["a ristretto is a short espresso", "a bicycle has two wheels"], ids=["cup", "bicycle"])
    ['cup', 'bicycle']
    >>> [hit.id for hit in collection.search("a small coffee", k=1)]
    ['cup']
    """

    @classmethod
    def open(cls, client: QdrantClient, name: str, encoder: Encoder | None = None) -> QdrantCollection:
        """The collection `name`, made for the vectors of `encoder` if there is none yet.

        One that is there must hold vectors of the same model: then any number of layers may search it, and all of its
        dims are used. Without an encoder, its own model is loaded.
        """
        if not client.collection_exists(name):
            client.create_collection(name, **_new(encoder, name))
        return cls._of(client, name, encoder, _stamp(client.get_collection(name), name))

    def add(
        self,
        texts: Iterable[str],
        ids: Iterable[str] | None = None,
        metadata: Iterable[Mapping[str, Any] | None] | None = None,
    ) -> list[str]:
        """Encode `texts` and put them in; returns their ids. A text whose id is there already replaces that one."""
        added: list[str] = []
        for piece in pieces(new_documents(texts, ids, metadata), _PIECE):
            given, points = self._points(piece)
            self.client.upsert(self.name, points, wait=True)
            added += given
        return added

    def delete(self, ids: Iterable[str]) -> None:
        """Take texts out."""
        if points := [point_id(id_) for id_ in wanted_ids(ids)]:
            self.client.delete(self.name, points, wait=True)

    def search(self, query: str, k: int = 10, *, where: Where | models.Filter | None = None) -> list[Hit]:
        """The `k` texts nearest to a query, best first.

        `where` is what `Index.search` takes, such as `{"lang": "en"}`, or a filter of Qdrant's.
        """
        return _hits(self.client.query_points(self.name, **self._query(query, k, where)))

    def __len__(self) -> int:
        return int(self.client.count(self.name, exact=True).count)


class AsyncQdrantCollection(_Collection):
    """The same for `AsyncQdrantClient`; made by `await AsyncQdrantCollection.open(…)`. Encoding runs in a thread."""

    @classmethod
    async def open(cls, client: AsyncQdrantClient, name: str, encoder: Encoder | None = None) -> AsyncQdrantCollection:
        """What `QdrantCollection.open` gives."""
        if not await client.collection_exists(name):
            await client.create_collection(name, **_new(encoder, name))
        info = await client.get_collection(name)
        return await asyncio.to_thread(cls._of, client, name, encoder, _stamp(info, name))

    async def add(
        self,
        texts: Iterable[str],
        ids: Iterable[str] | None = None,
        metadata: Iterable[Mapping[str, Any] | None] | None = None,
    ) -> list[str]:
        """Encode `texts` and put them in; returns their ids."""
        added: list[str] = []
        for piece in pieces(new_documents(texts, ids, metadata), _PIECE):
            given, points = await asyncio.to_thread(self._points, piece)
            await self.client.upsert(self.name, points, wait=True)
            added += given
        return added

    async def delete(self, ids: Iterable[str]) -> None:
        """Take texts out."""
        if points := [point_id(id_) for id_ in wanted_ids(ids)]:
            await self.client.delete(self.name, points, wait=True)

    async def search(self, query: str, k: int = 10, *, where: Where | models.Filter | None = None) -> list[Hit]:
        """The `k` texts nearest to a query, best first."""
        asked = await asyncio.to_thread(self._query, query, k, where)
        return _hits(await self.client.query_points(self.name, **asked))

    async def count(self) -> int:
        """How many texts there are."""
        return int((await self.client.count(self.name, exact=True)).count)


def point_id(id_: str) -> str:
    """The id of a text's point: Qdrant takes UUIDs, so any other string is made one, always the same.

    >>> point_id("espresso")
    '482fb3ab-0e1b-50f1-9f6d-fc7ee0b99c9e'
    """
    try:
        return str(uuid.UUID(id_))
    except ValueError:
        return str(uuid.uuid5(_OURS, id_))


def filter_of(where: Where) -> models.Filter:
    """The filter of Qdrant's that says what `where` says, in the words of `Index.search`."""
    conditions: list[Any] = []
    for field, wanted in check_where(where).items():
        if field in ("and", "or"):
            parts: list[Any] = [filter_of(part) for part in wanted]
            conditions.append(models.Filter(must=parts) if field == "and" else models.Filter(should=parts))
        else:
            conditions.append(_condition(f"metadata.{_key(field)}", wanted))
    return models.Filter(must=conditions)


def _key(field: str) -> str:
    """A field as the paths of Qdrant have it: in quotes if it has signs that mean something there."""
    if re.fullmatch(r"[\w-]+", field):
        return field
    if not field or '"' in field or "\\" in field:
        raise DataError(f"where has the field {shown(field)}, and Qdrant has no name for it; rename it")
    return f'"{field}"'


def _condition(key: str, wanted: Any) -> models.FieldCondition | models.Filter:
    if isinstance(wanted, Mapping):
        if any(isinstance(bound, str) for bound in wanted.values()):
            raise DataError(f"where compares {key} with a string, and Qdrant orders numbers only; give numbers")
        return models.FieldCondition(key=key, range=models.Range(**wanted))
    if isinstance(wanted, (list, tuple, set, frozenset)):
        return models.Filter(should=[_condition(key, one) for one in wanted])
    if isinstance(wanted, float):
        return models.FieldCondition(key=key, range=models.Range(gte=wanted, lte=wanted))
    return models.FieldCondition(key=key, match=models.MatchValue(value=wanted))


def _new(encoder: Encoder | None, name: str) -> dict[str, Any]:
    if encoder is None:
        raise DataError(f"there is no collection {name!r} yet; give the encoder to make it for")
    stamp = Stamp.of(encoder, _store(name))
    vectors = models.VectorParams(size=stamp.cut.dims, distance=models.Distance.COSINE)
    return {"vectors_config": vectors, "metadata": {KEY: stamp.plain()}}


def _stamp(info: models.CollectionInfo, name: str) -> Stamp:
    return Stamp.read((info.config.metadata or {}).get(KEY), _store(name))


def _store(name: str) -> Store:
    return Store(f"collection {name!r}", "QdrantCollection.open(client, 'another name', encoder).add(texts)")


def _hits(found: models.QueryResponse) -> list[Hit]:
    payloads = [(point.score, point.payload or {}) for point in found.points]
    return [Hit(one["id"], score, one["text"], one["metadata"]) for score, one in payloads]
