"""Against a real Postgres server with pgvector, started for these tests."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import postgres
import psycopg
import pytest
from psycopg import sql
from python_programs import run_program
from spaces import TEXTS, other_encoder

from demitasse.encoding.encoder import Encoder
from demitasse.errors import DataError
from demitasse.integrations.pgvector import AsyncPgvectorTable, PgvectorTable
from demitasse.search.index import Index

pytestmark = pytest.mark.adapters
IDS = ["a", "b", "c", "d"]
METADATA: list[dict[str, Any]] = [
    {"year": 2019, "lang": "en", "price": 1.5},
    {"year": 2021, "lang": ["en", "fr"], "new": True},
    {"year": "2022", "lang": 'de"'},
    {},
]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres.server() as connection:
        yield connection


@pytest.fixture
def connection(server: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(server, autocommit=True) as connection:
        yield connection
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")


def test_it_finds_what_exact_search_finds(encoder: Encoder, connection: psycopg.Connection[Any]) -> None:
    table = PgvectorTable.open(connection, "docs", encoder.cut("3x16"))
    assert table.add(TEXTS, IDS, METADATA) == IDS
    assert len(table) == 4
    scores = encoder.cut("3x16").encode_document(TEXTS) @ encoder.cut("3x16").encode_query(["tobel"])[0]
    for _ in range(2):
        hits = table.search("tobel", k=3)
        assert [hit.id for hit in hits] == [IDS[place] for place in (-scores).argsort()[:3]]
        assert [hit.score for hit in hits] == pytest.approx(sorted(scores, reverse=True)[:3], abs=1e-5)
        assert {hit.text: hit.metadata for hit in hits}.items() <= dict(zip(TEXTS, METADATA, strict=True)).items()
        connection.execute("CREATE INDEX ON docs USING hnsw (embedding vector_cosine_ops)")


def test_texts_are_replaced_and_deleted(encoder: Encoder, connection: psycopg.Connection[Any]) -> None:
    table = PgvectorTable.open(connection, "docs", encoder)
    table.add(TEXTS, IDS)
    table.add(["kax"], ["a"])
    assert {hit.id: hit.text for hit in table.search("kax")}["a"] == "kax"
    assert table.delete(["a", "d", "nobody"]) == 2
    (given,) = table.add(["sen"])
    assert {hit.id for hit in table.search("kan")} == {"b", "c", given}


@pytest.mark.parametrize(
    "where",
    [
        {"lang": "en"},
        {"lang": ['de"', "fr"]},
        {"year": {"gte": 2020, "lt": 2022}},
        {"year": {"gte": "2020"}},
        {"lang": "en", "year": 2019},
        {"or": [{"lang": 'de"'}, {"price": 1.5}]},
        {"and": [{"lang": "en"}, {"new": True}]},
        {"no'thing": "x"},
    ],
    ids=str,
)
def test_where_means_what_it_means_to_an_index(
    encoder: Encoder, connection: psycopg.Connection[Any], tmp_path: Path, where: dict[str, Any]
) -> None:
    table = PgvectorTable.open(connection, "docs", encoder)
    table.add(TEXTS, IDS, METADATA)
    index = Index.build(encoder, TEXTS, tmp_path / "index", ids=IDS, metadata=METADATA)
    wanted = {hit.id for hit in index.search("kan", where=where)}
    assert {hit.id for hit in table.search("kan", where=where)} == wanted


def test_a_call_is_part_of_your_transaction(encoder: Encoder, server: str, connection: psycopg.Connection[Any]) -> None:
    with psycopg.connect(server) as mine:
        table = PgvectorTable.open(mine, "docs", encoder)
        table.add(TEXTS, IDS)
        with pytest.raises(ZeroDivisionError), mine.transaction():
            table.delete(IDS)
            raise ZeroDivisionError
    assert len(PgvectorTable.open(connection, "docs")) == 4


def test_texts_come_in_all_or_none(encoder: Encoder, connection: psycopg.Connection[Any]) -> None:
    table = PgvectorTable.open(connection, "docs", encoder)

    def stopping() -> Iterator[str]:
        yield from ("kan " * (number % 7) for number in range(1500))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        table.add(stopping())
    assert len(table) == 0


def test_it_is_opened_again_with_its_model_or_any_depth(encoder: Encoder, connection: psycopg.Connection[Any]) -> None:
    PgvectorTable.open(connection, "public.docs", encoder.cut("3x16")).add(TEXTS, IDS)
    own = PgvectorTable.open(connection, "docs")
    assert own.search(TEXTS[2], k=1)[0].id == "c"
    shallow = PgvectorTable.open(connection, "docs", encoder.cut(layers=1))
    scores = encoder.cut("3x16").encode_document(TEXTS) @ encoder.cut("1x16").encode_query(["tobel"])[0]
    assert shallow.search("tobel", k=1)[0].score == pytest.approx(scores.max(), abs=1e-5)
    with pytest.raises(DataError, match="table 'docs' holds documents at 3x16, and this encoder, at 1x16, is deep"):
        shallow.add(["kan"])


def test_another_model_and_fewer_dims_are_refused(
    encoder: Encoder, model_folder: Callable[..., Path], connection: psycopg.Connection[Any]
) -> None:
    PgvectorTable.open(connection, "docs", encoder.cut("3x16"))
    again = r"or index its texts again: PgvectorTable.open\(connection, 'another_name', encoder\).add\(texts\)$"
    with pytest.raises(DataError, match=rf"^table 'docs' holds vectors of .* is another model .*{again}"):
        PgvectorTable.open(connection, "docs", other_encoder(model_folder))
    with pytest.raises(DataError, match=rf"^table 'docs' holds vectors of 16 dims, .* gives 8; .*{again}"):
        PgvectorTable.open(connection, "docs", encoder.cut(dims=8))


@pytest.mark.parametrize("comment", [None, "our customers", '{"demitasse": {"cut": "3x32"}}', "[]"])
def test_a_table_of_someone_else_is_refused(
    encoder: Encoder, connection: psycopg.Connection[Any], comment: str | None
) -> None:
    connection.execute("CREATE TABLE theirs (id text PRIMARY KEY)")
    connection.execute(sql.SQL("COMMENT ON TABLE theirs IS {}").format(comment))
    with pytest.raises(
        DataError, match=r"table 'theirs' (does not say which model made its|has a stamp that cannot be)"
    ):
        PgvectorTable.open(connection, "theirs", encoder)


def test_what_postgres_cannot_store_is_one_sentence(encoder: Encoder, connection: psycopg.Connection[Any]) -> None:
    table = PgvectorTable.open(connection, "docs", encoder)
    table.add(TEXTS, IDS, METADATA)
    for text, id_, facts in (("a\0b", "x", {}), ("a", "x\0", {}), ("a", "x", {"b": ["\0"]}), ("a", "x", {"\ud800": 1})):
        with pytest.raises(DataError, match="has a zero or half of a surrogate pair, which Postgres cannot store"):
            table.add([text], [id_], [facts])
    for where in ({"lang": "a\0"}, {"\0": 1}, {"or": [{"lang": ["en", "\udc00"]}]}):
        with pytest.raises(DataError, match="where has a zero or half of a surrogate pair"):
            table.search("kan", where=where)
    with pytest.raises(DataError, match="an empty list for 'lang'"):
        table.search("kan", where={"lang": []})
    with pytest.raises(DataError, match="ids must be a list of strings, not 'abc'"):  # not the texts a, b and c
        table.delete("abc")
    assert table.delete(["\ud800", "a\0", "a"]) == 1
    table.add(["😀 \\u0000"], ["emoji"], [{"b": "😀 \\u0000"}])  # signs that only look like those
    assert len(table) == 4


def test_wrong_names_are_one_sentence(encoder: Encoder, connection: psycopg.Connection[Any]) -> None:
    for name in ("", "a.b.c", "docs.", "a\0b"):
        with pytest.raises(DataError, match=r"is not the name of a table; write docs or schema\.docs"):
            PgvectorTable.open(connection, name, encoder)
    with pytest.raises(DataError, match="there is no table 'new' yet; give the encoder"):
        PgvectorTable.open(connection, "new")
    odd = PgvectorTable.open(connection, 'it\'s "odd"; DROP', encoder)
    assert odd.add(["kan"], ["a"]) == ["a"]


def test_a_database_without_pgvector_is_one_sentence(encoder: Encoder, connection: psycopg.Connection[Any]) -> None:
    connection.execute("DROP EXTENSION IF EXISTS vector CASCADE; CREATE ROLE guest LOGIN")
    connection.execute("GRANT USAGE ON SCHEMA public TO guest")
    with (
        psycopg.connect(connection.info.dsn, user="guest") as guest,
        pytest.raises(
            DataError, match=r"database postgres has no pgvector \(permission denied .*CREATE EXTENSION vector"
        ),
    ):
        PgvectorTable.open(guest, "docs", encoder)
    connection.execute("DROP OWNED BY guest; DROP ROLE guest")


def test_two_that_make_the_same_table_get_one(
    encoder: Encoder, server: str, connection: psycopg.Connection[Any]
) -> None:
    opened: list[PgvectorTable] = []

    def use() -> None:
        with psycopg.connect(server, autocommit=True) as own:
            table = PgvectorTable.open(own, "docs", encoder)
            table.add(TEXTS)
            opened.append(table)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 4
    assert len(PgvectorTable.open(connection, "docs")) == 4 * len(TEXTS)


def test_the_asynchronous_connection_does_the_same(
    encoder: Encoder, model_folder: Callable[..., Path], server: str, connection: psycopg.Connection[Any]
) -> None:
    async def use() -> None:
        async with await psycopg.AsyncConnection.connect(server) as own:
            table = await AsyncPgvectorTable.open(own, "docs", encoder)
            assert await table.add(TEXTS, IDS, METADATA) == IDS
            assert await table.delete(["a"]) == 1
            assert await table.count() == 3
            assert [hit.id for hit in await table.search("kan", where={"lang": "fr"})] == ["b"]
            with pytest.raises(DataError, match="is another model"):
                await AsyncPgvectorTable.open(own, "docs", other_encoder(model_folder))

    asyncio.run(use())
    assert len(PgvectorTable.open(connection, "docs")) == 3


def test_without_psycopg_the_message_says_what_to_install() -> None:
    program = "try: import demitasse.integrations.pgvector\nexcept ImportError as problem: print(problem)"
    said = run_program(program, without=["psycopg"]).stdout
    assert said == "demitasse.integrations.pgvector needs psycopg; pip install 'demitasse[pgvector]'\n"
