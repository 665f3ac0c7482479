from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import zoo
from sentence_transformers import SentenceTransformer

from demitasse import BackboneError, Cut, DataError, Encoder, FolderError, export, fit_exits, grid, load
from demitasse.encoding.precision import EXPORT_FORMATS
from demitasse.exporting.export import export_traced

TEXTS = [*zoo.sentences(30, seed=5), "", "kan " * 60]


@pytest.fixture(scope="module")
def fitted(encoder: Encoder) -> Encoder:
    return fit_exits(encoder, zoo.sentences(400), order=True, refine=False)


@pytest.mark.parametrize("name", ["BERT", "MPNet", "DistilBERT", "ModernBERT", "NomicBert", "Qwen3"])
def test_fp32_blocks_match_torch_at_every_depth(name: str, model_folder: Callable[..., Path], tmp_path: Path) -> None:
    modes = "last" if name == "Qwen3" else "mean"
    # Two layers: one that gets the embeddings and one that gets the states of a layer; of ModernBERT's two kinds, both.
    encoder = load(model_folder(name, modes=modes), device="cpu").cut(layers=2)
    done = export(encoder, tmp_path / "blocks", format="blocks", sentences=zoo.sentences(200))
    assert done.max_difference < 1e-5
    blocks = load(tmp_path / "blocks")
    cuts = grid(range(3), [8, 32])
    ours, theirs = blocks.encode_cuts(TEXTS, cuts), encoder.encode_cuts(TEXTS, cuts)
    for cut in cuts:
        np.testing.assert_allclose(ours[cut], theirs[cut], atol=1e-5)


def test_int8_blocks_are_close_at_every_depth_and_smaller(fitted: Encoder, tmp_path: Path) -> None:
    sentences = zoo.sentences(300)
    shallow = fitted.cut(layers=1)
    whole = export(shallow, tmp_path / "fp32", format="blocks", sentences=sentences)
    small = export(shallow, tmp_path / "int8", format="blocks-int8", sentences=sentences)
    assert min(small.mean_cosine.values()) > 0.99
    export_traced(shallow, tmp_path / "again", tmp_path / "fp32", format="blocks-int8", sentences=sentences)
    for path in (tmp_path / "int8").iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes()
    layer = "layer_1.onnx"
    assert (tmp_path / "int8" / layer).stat().st_size < 0.5 * (tmp_path / "fp32" / layer).stat().st_size
    assert whole.max_difference < 1e-5 < small.max_difference
    written = json.loads((tmp_path / "int8" / "demitasse.json").read_text())
    assert written["against_torch"]["mean_cosine"].keys() == {"0", "1"}
    blocks = load(tmp_path / "int8")
    assert repr(blocks) == "Encoder(1x32, BertModel, mean, exits at 0-1, int8 blocks, cpu)"
    assert blocks.record["objective"]["name"] == "exits"
    exact = shallow.encode_cuts(TEXTS, grid(range(2), [32]))
    for cut, vectors in blocks.encode_cuts(TEXTS, list(exact)).items():
        assert (vectors * exact[cut]).sum(1).mean() > 0.99


@pytest.mark.parametrize("format", ["onnx", "onnx-int8"])
def test_one_graph_gives_unit_vectors_of_its_cut(format: str, fitted: Encoder, tmp_path: Path) -> None:
    small = fitted.cut(layers=2, dims=8)
    done = export(small, tmp_path / "graph", format=format, sentences=zoo.sentences(200))
    assert done.cut == Cut(2, 8)
    limit = json.loads((tmp_path / "graph" / "tokenizer.json").read_text())["truncation"]
    assert limit["max_length"] == small.reader.max_tokens
    session = ort.InferenceSession(tmp_path / "graph" / "model.onnx")  # as any other program would
    ids, mask = small.reader.padded(small.reader.read(TEXTS), range(len(TEXTS)))
    (vectors,) = session.run(["sentence_embedding"], {"input_ids": ids, "attention_mask": mask})
    exact = small.encode(TEXTS)
    assert vectors.shape == (len(TEXTS), 8)
    if format == "onnx":
        np.testing.assert_allclose(vectors, exact, atol=1e-5)
    else:
        assert (vectors * exact).sum(1).mean() > 0.99
    with pytest.raises(FolderError, match=r"one ONNX graph .*; export the model as blocks"):
        load(tmp_path / "graph")


def test_the_sentence_transformers_format_opens_there(fitted: Encoder, tmp_path: Path) -> None:
    export(fitted.cut(layers=1), tmp_path / "st", format="sentence-transformers")
    theirs = SentenceTransformer(str(tmp_path / "st"), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(theirs, fitted.cut(layers=1).encode(TEXTS), atol=1e-5)


def test_pooling_that_leaves_the_prompt_out(encoder: Encoder, tmp_path: Path) -> None:
    pooling = replace(encoder.pooling, modes=("mean", "cls"), include_prompt=False)
    apart = replace(encoder.cut(layers=1), pooling=pooling, dims=64)
    export(apart, tmp_path / "blocks", format="blocks", sentences=zoo.sentences(200))
    blocks = load(tmp_path / "blocks")
    for prompt in ("query", None):
        expected = apart.encode(TEXTS, prompt_name=prompt)
        np.testing.assert_allclose(blocks.encode(TEXTS, prompt_name=prompt), expected, atol=1e-5)


def test_what_does_not_match_torch_is_not_written(model_folder: Callable[..., Path], tmp_path: Path) -> None:
    encoder = load(model_folder("DeBERTa-v2"), device="cpu").cut(layers=1)  # with a convolution after the first layer
    with pytest.raises(FolderError, match=r"differs from torch by .* so nothing was written"):
        export(encoder, tmp_path / "blocks", format="blocks", sentences=zoo.sentences(200))
    assert list(tmp_path.iterdir()) == []


def test_int8_too_far_from_torch_is_not_written(
    encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demitasse.exporting.export.INT8_BOUND", 1.01)
    with pytest.raises(FolderError, match=r"mean cosine of .* at depth . .* so nothing was written"):
        export(encoder.cut(layers=1), tmp_path / "blocks", format="blocks-int8", sentences=zoo.sentences(200))
    assert list(tmp_path.iterdir()) == []


def test_bad_requests_are_named(encoder: Encoder, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"format must be one of {', '.join(EXPORT_FORMATS)}, not 'tflite'"):
        export(encoder, tmp_path / "x", format="tflite")
    with pytest.raises(DataError, match="3 sentences are too few to check an export"):
        export(encoder, tmp_path / "x", sentences=["a", "b", "c"])
    with pytest.raises(DataError, match="cannot be exported again"):
        export(load(), tmp_path / "x")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_text("")
    with pytest.raises(FolderError, match="is not a demitasse model"):
        export(encoder.cut(layers=0), tmp_path / "taken", sentences=zoo.sentences(200))


@pytest.mark.parametrize("name", ["BERT", "Qwen3"])  # without and with a norm after the layers
def test_no_layers_at_all_are_blocks_too(name: str, model_folder: Callable[..., Path], tmp_path: Path) -> None:
    small = load(model_folder(name), device="cpu").cut(layers=0)
    export(small, tmp_path / "blocks", format="blocks", sentences=zoo.sentences(200))
    texts = zoo.sentences(20, seed=3)
    np.testing.assert_allclose(load(tmp_path / "blocks").encode(texts), small.encode(texts), atol=1e-5)


def test_a_graph_that_onnxruntime_cannot_run_is_one_sentence(
    model_folder: Callable[..., Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = load(model_folder("ModernBERT"), device="cpu").cut(layers=0)
    with pytest.raises(BackboneError, match=r"onnxruntime cannot run the exported ModernBertModel .* blocks instead"):
        export(model, tmp_path / "x", format="onnx", sentences=zoo.sentences(200))
    assert not (tmp_path / "x").exists()


def test_attention_is_one_operator(encoder: Encoder, tmp_path: Path) -> None:
    export(encoder.cut(layers=1), tmp_path / "blocks", format="blocks", sentences=zoo.sentences(200))
    operators = [node.op_type for node in onnx.load(tmp_path / "blocks" / "layer_1.onnx").graph.node]
    assert operators.count("Attention") == 1
    assert not {"Transpose", "Reshape", "Softmax"} & set(operators)
