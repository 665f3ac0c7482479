"""Postgres with pgvector: `PgvectorTable`, texts in a table.

    import psycopg
    from demitasse.integrations.pgvector import PgvectorTable

    table = PgvectorTable.open(psycopg.connect("dbname=shop"), "docs", dt.load())
    table.add(["a ristretto", "a lungo"])
    table.search("a small cup", k=1)

The table has the columns id, text, metadata (jsonb) and embedding (vector); its comment says which model made the
vectors. For many rows, make an index on it: `CREATE INDEX ON docs USING hnsw (embedding vector_cosine_ops)`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from demitasse.arguments import text, whole
from demitasse.encoding.encoder import Encoder
from demitasse.errors import DataError, reason, shown
from demitasse.extras import PGVECTOR, need
from demitasse.integrations.stamps import KEY, Stamp, Stamped, Store
from demitasse.search.documents import NewDocument, is_unicode, new_documents, pieces, wanted_ids
from demitasse.search.filters import Where, check_where
from demitasse.search.hits import Hit

try:
    import psycopg
    from pgvector.psycopg import register_vector, register_vector_async
    from psycopg import sql
except ImportError:
    need(__name__, PGVECTOR)
    raise

_PIECE = 1024  # rows that are sent together
_LOCK = "SELECT pg_advisory_xact_lock(hashtext(%s))"  # of two that make the same table at once, one waits
_EXTENSION = "CREATE EXTENSION IF NOT EXISTS vector"
_THERE = "SELECT to_regclass(%s) IS NOT NULL"
_COMMENT = "SELECT obj_description(to_regclass(%s), 'pg_class')"
_NOT_STORED = "a zero or half of a surrogate pair, which Postgres cannot store"
_ORDER = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


class _Table(Stamped):
    """The statements for a table; `client` is the connection."""

    @property
    def _table(self) -> sql.Identifier:
        return sql.Identifier(*self.name.split("."))

    def _rows(self, piece: Sequence[NewDocument]) -> tuple[list[str], list[tuple[Any, ...]]]:
        ids, vectors = self._encoded(piece)
        rows = [(id_, one.text, one.metadata or "{}", vec) for id_, one, vec in zip(ids, piece, vectors, strict=True)]
        for id_, content, metadata, _ in rows:
            facts = json.loads(metadata) if "\\u" in metadata else None
            if not _storable([id_, content, facts]):
                raise DataError(f"the text with the id {shown(id_)} has {_NOT_STORED}; remove that")
        return ids, rows

    def _insertion(self) -> sql.Composed:
        return sql.SQL(
            "INSERT INTO {} (id, text, metadata, embedding) VALUES (%s, %s, %s::jsonb, %s) ON CONFLICT (id) DO UPDATE "
            "SET text = EXCLUDED.text, metadata = EXCLUDED.metadata, embedding = EXCLUDED.embedding"
        ).format(self._table)

    def _deletion(self) -> sql.Composed:
        return sql.SQL("DELETE FROM {} WHERE id = ANY(%s)").format(self._table)

    def _selection(self, query: str, k: int, where: Where | None) -> tuple[sql.Composed, dict[str, Any]]:
        vector = self.encoders.queries.encode_query([query], progress=False)[0]
        chosen = sql.SQL("true" if where is None else "metadata @@ %(where)s::jsonpath")
        statement = sql.SQL(
            "SELECT id, 1 - (embedding <=> %(query)s), text, metadata FROM {} WHERE {} "
            "ORDER BY embedding <=> %(query)s LIMIT %(k)s"
        ).format(self._table, chosen)
        values = {"query": vector, "k": whole("k", k, least=1), "where": None if where is None else jsonpath(where)}
        return statement, values

    def _counting(self) -> sql.Composed:
        return sql.SQL("SELECT count(*) FROM {}").format(self._table)


class PgvectorTable(_Table):
    """Texts with their vectors in a table of Postgres; made by `PgvectorTable.open`.

    Each call is a transaction of its own, or part of yours if you have begun one.
    """

    @classmethod
    def open(cls, connection: psycopg.Connection[Any], name: str, encoder: Encoder | None = None) -> PgvectorTable:
        """The table `name`, also `schema.name`, made for the vectors of `encoder` if there is none yet.

        One that is there must hold vectors of the same model: then any number of layers may search it, and all of its
        dims are used. Without an encoder, its own model is loaded.
        """
        quoted = _quoted(name)
        with connection.transaction():
            connection.execute(_LOCK, [name])
            with _needing_pgvector(connection.info.dbname):
                connection.execute(_EXTENSION)
            register_vector(connection)
            if connection.execute(_THERE, [quoted]).fetchone() == (False,):
                connection.execute(_creation(name, encoder))
            (comment,) = connection.execute(_COMMENT, [quoted]).fetchone() or (None,)
        return cls._of(connection, name, encoder, _stamp(comment, name))

    def add(
        self,
        texts: Iterable[str],
        ids: Iterable[str] | None = None,
        metadata: Iterable[Mapping[str, Any] | None] | None = None,
    ) -> list[str]:
        """Encode `texts` and put them in, all or none; returns their ids.

        A text whose id is there already replaces that one.
        """
        added: list[str] = []
        with self.client.transaction(), self.client.cursor() as cursor:
            for piece in pieces(new_documents(texts, ids, metadata), _PIECE):
                given, rows = self._rows(piece)
                cursor.executemany(self._insertion(), rows)
                added += given
        return added

    def delete(self, ids: Iterable[str]) -> int:
        """Take texts out; returns how many of `ids` were there."""
        with self.client.transaction():
            return int(self.client.execute(self._deletion(), [_wanted(ids)]).rowcount)

    def search(self, query: str, k: int = 10, *, where: Where | None = None) -> list[Hit]:
        """The `k` texts nearest to a query, best first; `where` is what `Index.search` takes: `{"lang": "en"}`."""
        with self.client.transaction():
            return [Hit(*row) for row in self.client.execute(*self._selection(query, k, where))]

    def __len__(self) -> int:
        with self.client.transaction():
            return int(self.client.execute(self._counting()).fetchone()[0])


class AsyncPgvectorTable(_Table):
    """The same for `psycopg.AsyncConnection`; made by `await AsyncPgvectorTable.open(…)`. Encoding runs in a thread."""

    @classmethod
    async def open(
        cls, connection: psycopg.AsyncConnection[Any], name: str, encoder: Encoder | None = None
    ) -> AsyncPgvectorTable:
        """What `PgvectorTable.open` gives."""
        quoted = _quoted(name)
        async with connection.transaction():
            await connection.execute(_LOCK, [name])
            with _needing_pgvector(connection.info.dbname):
                await connection.execute(_EXTENSION)
            await register_vector_async(connection)
            if await (await connection.execute(_THERE, [quoted])).fetchone() == (False,):
                await connection.execute(_creation(name, encoder))
            (comment,) = await (await connection.execute(_COMMENT, [quoted])).fetchone() or (None,)
        return await asyncio.to_thread(cls._of, connection, name, encoder, _stamp(comment, name))

    async def add(
        self,
        texts: Iterable[str],
        ids: Iterable[str] | None = None,
        metadata: Iterable[Mapping[str, Any] | None] | None = None,
    ) -> list[str]:
        """Encode `texts` and put them in, all or none; returns their ids."""
        added: list[str] = []
        async with self.client.transaction(), self.client.cursor() as cursor:
            for piece in pieces(new_documents(texts, ids, metadata), _PIECE):
                given, rows = await asyncio.to_thread(self._rows, piece)
                await cursor.executemany(self._insertion(), rows)
                added += given
        return added

    async def delete(self, ids: Iterable[str]) -> int:
        """Take texts out; returns how many of `ids` were there."""
        async with self.client.transaction():
            return int((await self.client.execute(self._deletion(), [_wanted(ids)])).rowcount)

    async def search(self, query: str, k: int = 10, *, where: Where | None = None) -> list[Hit]:
        """The `k` texts nearest to a query, best first."""
        asked = await asyncio.to_thread(self._selection, query, k, where)
        async with self.client.transaction():
            return [Hit(*row) async for row in await self.client.execute(*asked)]

    async def count(self) -> int:
        """How many texts there are."""
        async with self.client.transaction():
            return int((await (await self.client.execute(self._counting())).fetchone())[0])


def jsonpath(where: Where) -> str:
    """The condition on jsonb that says what `where` says, in the words of `Index.search`.

    >>> jsonpath({"lang": ["en", "de"], "year": {"gte": 2020}})
    '(($."lang" == "en" || $."lang" == "de") && ($."year" >= 2020))'
    """
    checked = check_where(where)
    if not _storable(checked):
        raise DataError(f"where has {_NOT_STORED}; remove that")
    return _joined(" && ", [_condition(field, wanted) for field, wanted in checked.items()])


def _condition(field: str, wanted: Any) -> str:
    if field in ("and", "or"):
        return _joined(" && " if field == "and" else " || ", [jsonpath(part) for part in wanted])
    path = f"$.{json.dumps(field)}"
    if isinstance(wanted, Mapping):
        return _joined(" && ", [f"{path} {_ORDER[name]} {json.dumps(bound)}" for name, bound in wanted.items()])
    several = wanted if isinstance(wanted, (list, tuple, set, frozenset)) else [wanted]
    return _joined(" || ", [f"{path} == {json.dumps(value)}" for value in several])


def _storable(value: Any) -> bool:
    """Whether Postgres has a form for all strings of a value of JSON."""
    if isinstance(value, Mapping):
        return all(_storable(name) and _storable(inner) for name, inner in value.items())
    if isinstance(value, list):
        return all(map(_storable, value))
    return not isinstance(value, str) or ("\0" not in value and is_unicode(value))


def _wanted(ids: Iterable[str]) -> list[str]:
    return [id_ for id_ in wanted_ids(ids) if "\0" not in id_]


def _joined(between: str, conditions: list[str]) -> str:
    return f"({between.join(conditions)})"


def _quoted(name: str) -> str:
    """The name of a table as SQL has it, with its schema if it has one."""
    parts = text("name", name).split(".")
    if len(parts) > 2 or not all(parts) or "\0" in name:
        raise DataError(f"{name!r} is not the name of a table; write docs or schema.docs")
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def _creation(name: str, encoder: Encoder | None) -> sql.Composed:
    if encoder is None:
        raise DataError(f"there is no table {name!r} yet; give the encoder to make it for")
    stamp = Stamp.of(encoder, _store(name))
    return sql.SQL(
        "CREATE TABLE {table} (id text PRIMARY KEY, text text NOT NULL, metadata jsonb NOT NULL, "
        "embedding vector({dims}) NOT NULL); COMMENT ON TABLE {table} IS {stamp}"
    ).format(table=sql.Identifier(*name.split(".")), dims=stamp.cut.dims, stamp=json.dumps({KEY: stamp.plain()}))


def _store(name: str) -> Store:
    return Store(f"table {name!r}", "PgvectorTable.open(connection, 'another_name', encoder).add(texts)")


def _stamp(comment: str | None, name: str) -> Stamp:
    stored = None
    with suppress(ValueError, AttributeError, RecursionError):  # another comment, or none
        stored = json.loads(comment or "{}").get(KEY)
    return Stamp.read(stored, _store(name))


@contextmanager
def _needing_pgvector(database: str) -> Iterator[None]:
    try:
        yield
    except psycopg.Error as problem:
        raise DataError(
            f"the database {database} has no pgvector ({reason(problem)}); install it on the server, and run CREATE "
            "EXTENSION vector as an administrator"
        ) from problem
