"""Inside the real lancedb."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pytest
from lancedb.pydantic import LanceModel, Vector
from lancedb.table import Table
from python_programs import run_program
from spaces import TEXTS, copied, other_encoder, replaced

from demitasse.encoding.encoder import Encoder
from demitasse.errors import CutError, DataError
from demitasse.integrations.lancedb import DemitasseFunction, query_vector

pytestmark = pytest.mark.adapters


def schema(function: DemitasseFunction) -> type[LanceModel]:
    class Doc(LanceModel):
        text: str = function.SourceField()
        vector: Vector(function.ndims()) = function.VectorField()  # type: ignore[valid-type]

    return Doc


def made(folder: Path, **options: Any) -> Table:
    table = lancedb.connect(folder).create_table("docs", schema=schema(DemitasseFunction.create(**options)))
    table.add([{"text": one} for one in TEXTS])
    return table


def found(table: Table, query: Any, count: int = 2) -> list[tuple[str, float]]:
    rows = table.search(query).distance_type("cosine").limit(count).to_list()
    return [(row["text"], 1 - row["_distance"]) for row in rows]


def nearest(documents: Encoder, queries: Encoder, query: str, count: int = 2) -> list[tuple[str, float]]:
    scores = documents.encode_document(TEXTS) @ queries.encode_query([query])[0]
    return [(TEXTS[place], pytest.approx(scores[place], abs=1e-5)) for place in (-scores).argsort()[:count]]


def test_a_table_finds_what_exact_search_finds(encoder: Encoder, tmp_path: Path) -> None:
    table = made(tmp_path, model=encoder, cut="3x16", query_layers=1)
    assert np.allclose(table.to_arrow()["vector"].to_pylist(), encoder.cut("3x16").encode_document(TEXTS), atol=1e-6)
    assert found(table, "tobel") == nearest(encoder.cut("3x16"), encoder.cut("1x16"), "tobel")


def test_a_table_opened_again_has_its_function(encoder: Encoder, tmp_path: Path) -> None:
    made(tmp_path, model=encoder, cut="3x16", query_layers=1)
    again = lancedb.connect(tmp_path).open_table("docs")
    assert found(again, "tobel") == nearest(encoder.cut("3x16"), encoder.cut("1x16"), "tobel")
    again.add([{"text": "kax"}])
    assert np.allclose(again.to_arrow()["vector"].to_pylist()[-1], encoder.cut("3x16").encode_document(["kax"])[0])


def test_the_asynchronous_api_does_the_same(encoder: Encoder, tmp_path: Path) -> None:
    made(tmp_path, model=encoder, cut="3x16")

    async def use() -> list[str]:
        table = await (await lancedb.connect_async(tmp_path)).open_table("docs")
        await table.add([{"text": "kax"}])
        assert await table.count_rows() == len(TEXTS) + 1
        rows = await (await table.search("tobel")).distance_type("cosine").limit(2).to_list()
        return [row["text"] for row in rows if row["text"] != "kax"]

    texts = [text for text, _ in nearest(encoder.cut("3x16"), encoder.cut("3x16"), "tobel")]
    assert asyncio.run(use())[:1] == texts[:1]


def test_a_replaced_model_is_refused(model_folder: Callable[..., Path], tmp_path: Path) -> None:
    folder = copied(model_folder("BERT"), tmp_path / "model")
    made(tmp_path / "lance", model=folder)
    replaced(folder, model_folder("BERT", modes="cls"))
    again = lancedb.connect(tmp_path / "lance").open_table("docs")
    from demitasse.integrations import lancedb as ours

    ours._reopened.cache_clear()  # as in a new process
    with pytest.raises(DataError, match=r"is not the model that it was .* or index the texts again"):
        again.search("tobel").to_list()
    with pytest.raises(DataError, match="is not the model that it was"):
        again.add([{"text": "kax"}])


def test_another_encoder_may_search_if_its_model_is_the_same(
    encoder: Encoder, model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    table = made(tmp_path, model=encoder, cut="3x16")
    vector = query_vector(table, "tobel", encoder.cut(layers=1))
    assert found(table, vector) == nearest(encoder.cut("3x16"), encoder.cut("1x16"), "tobel")
    with pytest.raises(DataError, match=r"^table 'docs' holds .* is another model .* again: make another table, with"):
        query_vector(table, "tobel", other_encoder(model_folder))
    with pytest.raises(DataError, match="holds vectors of 16 dims, and this encoder gives 8"):
        query_vector(table, "tobel", encoder.cut(dims=8))
    plain = lancedb.connect(tmp_path).create_table("plain", [{"text": "kan", "vector": [0.0, 1.0]}])
    with pytest.raises(DataError, match="table 'plain' does not say which model made its vectors"):
        query_vector(plain, "tobel", encoder)


def test_wrong_options_are_refused_at_once(encoder: Encoder) -> None:
    with pytest.raises(CutError, match="cut 9x16 is deeper"):
        DemitasseFunction.create(model=encoder, cut="9x16")
    with pytest.raises(TypeError, match="layers"):
        DemitasseFunction.create(model=encoder, layers=3)


def test_functions_of_one_model_are_equal(encoder: Encoder) -> None:
    one, same, other = (DemitasseFunction.create(model=encoder, cut=cut) for cut in ("3x16", "3x16", "2x16"))
    assert one == same
    assert one != other
    assert len({one, same, other}) == 2


def test_without_lancedb_the_message_says_what_to_install() -> None:
    program = "try: import demitasse.integrations.lancedb\nexcept ImportError as problem: print(problem)"
    said = run_program(program, without=["lancedb"]).stdout
    assert said == "demitasse.integrations.lancedb needs lancedb; pip install 'demitasse[lancedb]'\n"
