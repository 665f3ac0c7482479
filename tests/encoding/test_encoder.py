from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import zoo

from demitasse import Cut, CutError, DataError, Encoder, MissingExtra, grid, load
from demitasse.encoding.batching import pace
from demitasse.torch_model.hf_tokenizer import batch_tokenizer

TEXTS = zoo.sentences(40)


def test_vectors_are_unit_length_float32_in_input_order(encoder: Encoder) -> None:
    vectors = encoder.encode(TEXTS)
    assert vectors.shape == (40, 32)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    for index in (0, 17, 39):
        np.testing.assert_allclose(encoder.encode([TEXTS[index]])[0], vectors[index], atol=1e-5)


@pytest.mark.parametrize("name", ["BERT", "RoBERTa", "ModernBERT", "Qwen3", "GPT-2", "T5 encoder"])
def test_a_vector_does_not_depend_on_its_batch(name: str, model_folder: Callable[..., Path]) -> None:
    encoder = load(model_folder(name))
    together = encoder.encode(TEXTS)
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS])
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-5)
    np.testing.assert_allclose(encoder.encode(TEXTS[::-1])[::-1], together, rtol=0, atol=1e-5)


def test_the_full_encoder_gives_what_sentence_transformers_gives(model_folder: Callable[..., Path]) -> None:
    from sentence_transformers import SentenceTransformer

    for options in (
        {},
        {"modes": "cls"},
        {"modes": "max"},
        {"modes": "last"},
        {"modes": "cls+mean"},
        {"dense": 12},
    ):
        folder = model_folder("BERT", **options)
        theirs = SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
        np.testing.assert_allclose(load(folder).encode(TEXTS), theirs, atol=1e-5)


def test_a_cut_copies_no_weights_and_does_not_change_the_original(encoder: Encoder) -> None:
    before = encoder.encode(TEXTS)
    small = encoder.cut(layers=2, dims=8)
    assert small.full == Cut(2, 8)
    assert encoder.full == Cut(3, 32)
    np.testing.assert_array_equal(encoder.encode(TEXTS), before)
    shared = {id(p) for p in encoder.backbone.model.parameters()}
    assert {id(p) for p in small.backbone.model.parameters()} <= shared


def test_fewer_dims_are_the_first_dims_at_unit_length(encoder: Encoder) -> None:
    prefix = encoder.encode(TEXTS)[:, :8]
    expected = prefix / np.linalg.norm(prefix, axis=1, keepdims=True)
    np.testing.assert_allclose(encoder.cut(dims=8).encode(TEXTS), expected, atol=1e-6)


def test_a_cut_of_a_cut_is_the_smaller_cut(encoder: Encoder) -> None:
    twice = encoder.cut(layers=2).cut(layers=1, dims=8)
    np.testing.assert_allclose(twice.encode(TEXTS), encoder.cut(1, 8).encode(TEXTS), atol=1e-6)
    with pytest.raises(CutError, match=r"deeper than this encoder \(2x32\)"):
        encoder.cut(layers=2).cut(layers=3)


@pytest.mark.parametrize("name", ["BERT", "ModernBERT", "Qwen3", "DeBERTa-v2"])
def test_one_pass_gives_what_each_cut_gives(name: str, model_folder: Callable[..., Path]) -> None:
    encoder = load(model_folder(name))
    cuts = grid(range(4), [4, 32])
    at_once = encoder.encode_cuts(TEXTS, cuts)
    assert sorted(at_once) == cuts
    for cut in cuts:
        np.testing.assert_allclose(at_once[cut], encoder.cut(*cut).encode(TEXTS), atol=1e-5)


def test_cuts_that_do_not_fit_are_refused(encoder: Encoder) -> None:
    with pytest.raises(CutError, match="cut 4x32 is deeper than this encoder"):
        encoder.cut(layers=4)
    with pytest.raises(CutError, match="cut 3x33 is wider than this encoder"):
        encoder.cut(dims=33)
    with pytest.raises(CutError, match="wider"):
        encoder.encode_cuts(TEXTS, [Cut(1, 8), Cut(1, 64)])
    with pytest.raises(CutError, match="no cuts were given"):
        encoder.encode_cuts(TEXTS, [])


def test_an_endless_stream_is_read_a_window_at_a_time(encoder: Encoder) -> None:
    read = 0

    def stream() -> Iterator[str]:
        nonlocal read
        while True:
            read += 1
            yield TEXTS[read % 40]

    vectors = encoder.cut(layers=0).encode_iter(stream())
    first = next(vectors)
    assert read == pace(encoder.runtime, encoder.device_kind).window
    np.testing.assert_allclose(first, encoder.cut(layers=0).encode([TEXTS[1]])[0], atol=1e-5)


def test_the_caller_of_a_stream_is_not_left_in_inference_mode(encoder: Encoder) -> None:
    for _ in encoder.encode_iter(TEXTS):
        assert not torch.is_inference_mode_enabled()


def test_long_work_is_shown(
    encoder: Encoder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demitasse.host.progress.PATIENCE", -1)  # shown at once
    encoder.encode(TEXTS, progress=True)
    assert "40/40" in capsys.readouterr().err
    encoder.encode(TEXTS)
    assert capsys.readouterr().err == ""


def test_encode_iter_gives_the_vectors_of_encode(encoder: Encoder) -> None:
    np.testing.assert_array_equal(np.stack(list(encoder.encode_iter(iter(TEXTS)))), encoder.encode(TEXTS))


def test_no_texts_give_no_vectors(encoder: Encoder) -> None:
    assert encoder.encode([]).shape == (0, 32)
    assert encoder.encode_cuts([], [Cut(1, 8)])[Cut(1, 8)].shape == (0, 8)
    assert list(encoder.encode_iter([])) == []


@pytest.mark.parametrize("name", ["BERT", "Qwen3"])
def test_strange_texts_have_defined_vectors(name: str, model_folder: Callable[..., Path]) -> None:
    encoder = load(model_folder(name))
    vectors = encoder.encode(["", " ", "\ud800", "�", "kan " * 250_000, "kan " * 100])
    assert np.isfinite(vectors).all()
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(vectors[2], vectors[3], atol=1e-5)  # half a surrogate pair reads as U+FFFD
    np.testing.assert_allclose(vectors[4], vectors[5], atol=1e-5)  # a megabyte is cut off at 32 tokens


def test_a_tokenizer_that_gives_no_tokens_for_an_empty_text(encoder: Encoder) -> None:
    bare = zoo.tokenizer()
    bare.backend_tokenizer.post_processor = None
    without = replace(encoder, reader=replace(encoder.reader, tokenizer=batch_tokenizer(bare, 32)))
    assert np.isfinite(without.encode(["", "kan"])).all()


@pytest.mark.parametrize("texts", ["one string", None, ["a", None], ["a", 3]])
def test_bad_input_is_named(encoder: Encoder, texts: object) -> None:
    with pytest.raises(DataError, match="string"):
        encoder.encode(texts)  # type: ignore[arg-type]


def test_prompts_are_put_before_the_text(encoder: Encoder) -> None:
    query = encoder.encode(["mix tor"], prompt_name="query")
    np.testing.assert_allclose(query, encoder.encode(["kan lor mix tor"]), atol=1e-6)
    document = encoder.encode(["mix tor"], prompt_name="document")
    np.testing.assert_allclose(document, encoder.encode(["mist mix tor"]), atol=1e-6)
    with pytest.raises(DataError, match="no prompt 'sts'; use one of document, query"):
        encoder.encode(["a"], prompt_name="sts")


def test_a_default_prompt_is_used_unless_another_is_chosen(encoder: Encoder) -> None:
    reader = replace(encoder.reader, default_prompt="query")
    prompted = replace(encoder, reader=reader)
    np.testing.assert_allclose(prompted.encode(["mix"]), encoder.encode(["mix"], prompt_name="query"), atol=1e-6)
    np.testing.assert_allclose(prompted.encode(["mix"], prompt=""), encoder.encode(["mix"]), atol=1e-6)


def test_queries_and_documents_have_calls_of_their_own(encoder: Encoder) -> None:
    np.testing.assert_array_equal(encoder.encode_query(TEXTS), encoder.encode(TEXTS, prompt_name="query"))
    np.testing.assert_array_equal(encoder.encode_document(TEXTS), encoder.encode(TEXTS, prompt_name="document"))
    np.testing.assert_array_equal(load().encode_query(["a cup"]), load().encode(["a cup"]))  # it has no prompts


def test_a_literal_prompt_is_put_before_each_text(encoder: Encoder) -> None:
    for vectors in (
        encoder.encode(["mix tor"], prompt="kan lor "),
        np.stack([*encoder.encode_iter(["mix tor"], prompt="kan lor ")]),
        encoder.encode_cuts(["mix tor"], [encoder.full], prompt="kan lor ")[encoder.full],
    ):
        np.testing.assert_allclose(vectors, encoder.encode_query(["mix tor"]), atol=1e-6)


def test_vectors_as_tensors(encoder: Encoder) -> None:
    for encode in (encoder.encode, encoder.encode_query, encoder.encode_document):
        vectors = encode(TEXTS, convert_to_tensor=True)
        assert isinstance(vectors, torch.Tensor)
        np.testing.assert_array_equal(vectors.numpy(), encode(TEXTS))


def test_tensors_need_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match="convert_to_tensor=True needs torch; pip install"):
        load().encode(["a cup"], convert_to_tensor=True)


def test_a_table_is_encoded_by_its_texts(encoder: Encoder) -> None:
    table: Any = {"id": [*range(40)], "text": TEXTS}
    np.testing.assert_array_equal(encoder.encode(table), encoder.encode(TEXTS))
    np.testing.assert_array_equal([*encoder.encode_iter(table)], encoder.encode(TEXTS))
    np.testing.assert_array_equal(encoder.count_tokens(table), encoder.count_tokens(TEXTS))


def test_a_prompt_can_be_left_out_of_the_pooling(encoder: Encoder) -> None:
    apart = replace(encoder, pooling=replace(encoder.pooling, include_prompt=False))
    states = apart.states(["mix tor"], [0], prompt_name="query")[0]
    # At depth 0 of a BERT the state of a token knows its position but not its neighbours: [CLS] kan lor | mix tor [SEP]
    ids, mask = map(torch.from_numpy, apart.reader.padded(apart.reader.read(["kan lor mix tor"]), [0]))
    inputs = {"input_ids": ids, "attention_mask": mask}
    tokens = apart.backbone.states(inputs, [0], lambda hidden: hidden)[0].detach()
    np.testing.assert_allclose(states[0].numpy(), tokens[0, 3:].mean(0).numpy(), atol=1e-6)


def test_the_repr_of_an_encoder(encoder: Encoder) -> None:
    assert repr(encoder) == "Encoder(3x32, BertModel, mean, cpu)"
    assert repr(encoder.cut(2, 8)) == "Encoder(2x8, BertModel, mean, cpu)"
