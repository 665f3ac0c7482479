"""What integrations write into the files of others, and the guard that all of them share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from spaces import TEXTS, copied, other_encoder, replaced

from demitasse.cut import Cut
from demitasse.encoding.encoder import Encoder
from demitasse.encoding.loading import load
from demitasse.errors import CutError, DataError
from demitasse.integrations.encoders import Encoders
from demitasse.integrations.stamps import Stamp, Store

STORE = Store("collection 'docs'", "open('another').add(texts)")


def test_queries_and_documents_have_their_prompts_and_layers(encoder: Encoder) -> None:
    opened = Encoders.open(encoder, cut="3x16", query_layers=1)
    assert opened.document_vectors(TEXTS) == encoder.cut("3x16").encode_document(TEXTS).tolist()
    assert opened.query_vectors(TEXTS) == encoder.cut("1x16").encode_query(TEXTS).tolist()
    assert opened.document_vectors([]) == []


def test_plain_values_give_the_same_encoders_again(encoder: Encoder) -> None:
    opened = Encoders.open(encoder, cut="2x16", query_layers=3, max_seq_length=9)
    again = Encoders.open(**json.loads(json.dumps(opened.plain())))
    assert (again.documents.full, again.queries.full) == (Cut(2, 16), Cut(3, 16))
    assert again.documents.max_seq_length == 9
    assert again.document_vectors(TEXTS) == opened.document_vectors(TEXTS)
    assert again.query_vectors(TEXTS) == opened.query_vectors(TEXTS)


def test_the_built_in_model_is_written_without_a_path() -> None:
    plain = Encoders.open(cut="1x32").plain()
    assert (plain["model"], plain["cut"]) == (None, "1x32")
    assert np.allclose(Encoders.open(**plain).query_vectors(["a cup"]), load().cut("1x32").encode_query(["a cup"]))


def test_a_replaced_model_is_refused(model_folder: Callable[..., Path], tmp_path: Path) -> None:
    folder = copied(model_folder("BERT"), tmp_path / "model")
    plain = Encoders.open(folder).plain()
    Encoders.open(**plain)
    replaced(folder, model_folder("BERT", modes="cls"))
    with pytest.raises(DataError, match=r"is not the model that it was .*; put that model back, or index the texts"):
        Encoders.open(**plain)


@pytest.mark.parametrize("space", ["text", {}, {"depths": []}, {"depths": [1], "tokenizer": "", "prompts": {}}])
def test_a_space_that_cannot_be_read_is_one_sentence(encoder: Encoder, space: Any) -> None:
    with pytest.raises(DataError, match="space must be what demitasse wrote, not"):
        Encoders.open(encoder, space=space)


def stamped(encoder: Encoder) -> Stamp:
    """The stamp of a collection of `encoder`, as it is read back."""
    return Stamp.read(json.loads(json.dumps(Stamp.of(encoder, STORE).plain())), STORE)


def test_any_depth_may_search_and_more_dims_are_cut(encoder: Encoder) -> None:
    stamp = stamped(encoder.cut("2x16"))
    for layers in (0, 1, 2, 3):
        opened = stamp.encoders(encoder.cut(layers=layers))
        assert opened.queries.full == Cut(layers, 16)
        assert opened.documents.full == Cut(min(layers, 2), 16)


def test_without_an_encoder_its_own_is_loaded(encoder: Encoder) -> None:
    opened = stamped(encoder.cut("2x16")).encoders(None)
    assert (opened.documents.full, opened.queries.full) == (Cut(2, 16), Cut(2, 16))
    assert opened.document_vectors(TEXTS) == encoder.cut("2x16").encode_document(TEXTS).tolist()


def test_too_few_layers_can_search_but_not_add(encoder: Encoder) -> None:
    stamp = stamped(encoder.cut("2x16"))
    stamp.check_additions(stamp.encoders(encoder))
    with pytest.raises(
        DataError, match=r"'docs' holds documents at 2x16, and this encoder, at 1x16, is deep enough for"
    ):
        stamp.check_additions(stamp.encoders(encoder.cut(layers=1)))


def test_another_model_is_refused(encoder: Encoder, model_folder: Callable[..., Path]) -> None:
    other = other_encoder(model_folder)
    assert other.full == encoder.full
    said = (
        rf"^collection 'docs' holds vectors of {encoder.folder}, and this encoder, {other.name}, is another model "
        r"\(its weights differ\); open it with that one, or index its texts again: open\('another'\).add\(texts\)$"
    )
    with pytest.raises(DataError, match=said):
        stamped(encoder).encoders(other)


def test_fewer_dims_are_refused(encoder: Encoder) -> None:
    said = r"holds vectors of 16 dims, and this encoder gives 8; open it with at least 16 dims, or index its texts ag"
    with pytest.raises(DataError, match=said):
        stamped(encoder.cut("2x16")).encoders(encoder.cut(dims=8))


def test_a_store_without_a_stamp_is_refused() -> None:
    with pytest.raises(DataError, match=r"'docs' does not say which model made its vectors, .*; index its texts again"):
        Stamp.read(None, STORE)


@pytest.mark.parametrize("change", [{"cut": "six"}, {"space": {}}, {"model": 7, "max_seq_length": 0}, {"cut": None}])
def test_a_damaged_stamp_is_one_sentence(encoder: Encoder, change: dict[str, Any]) -> None:
    plain = {**Stamp.of(encoder, STORE).plain(), **change}
    with pytest.raises(
        DataError, match=r"^collection 'docs' has a stamp that cannot be read, .*; index its texts again"
    ):
        Stamp.read(plain, STORE)
    with pytest.raises(DataError, match="has a stamp that cannot be read, 'text'; index"):
        Stamp.read("text", STORE)


def test_bad_values_are_the_errors_of_cuts(encoder: Encoder) -> None:
    with pytest.raises(CutError, match="cut 9x16 is deeper"):
        Encoders.open(encoder, cut="9x16")
    with pytest.raises(DataError, match="encoder must be an Encoder, not 'x'"):
        Stamp.of("x", STORE)  # type: ignore[arg-type]
