"""Weights that are NaN or infinite, and prompts that are left out of pooling: the real cause, wherever it shows."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
import zoo
from safetensors.torch import load_file, save_file

from demitasse import Encoder, FolderError, TrainOptions, export, fit_exits, load, read_pairs, train
from demitasse.encoding.manifest import Manifest
from demitasse.torch_model.torch_encoder import TorchEncoder

WEIGHT = "encoder.layer.1.output.dense.weight"
TEXTS = ["kan lor", "mist", "zefi kan rux"]


@pytest.fixture
def unsound(encoder: Encoder) -> TorchEncoder:
    """An encoder in memory with one NaN, as after training at too high a rate."""
    assert isinstance(encoder, TorchEncoder)
    model = copy.deepcopy(encoder.backbone.model)
    with torch.no_grad():
        model.get_parameter(WEIGHT)[3, 5] = float("nan")
    return replace(encoder, backbone=replace(encoder.backbone, model=model))


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_folder_with_an_unsound_weight_is_refused(
    number: float, model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    shutil.copytree(model_folder("BERT"), tmp_path / "m")
    tensors = load_file(tmp_path / "m" / "model.safetensors")
    tensors[WEIGHT][3, 5] = number
    save_file(tensors, tmp_path / "m" / "model.safetensors", {"format": "pt"})
    with pytest.raises(FolderError, match=f"has NaN or infinite numbers in {WEIGHT}; copy or save the model again"):
        load(tmp_path / "m", device="cpu")


def test_heads_and_exits_are_looked_at_too(encoder: Encoder, tmp_path: Path) -> None:
    fitted = fit_exits(encoder, zoo.sentences(300), order=False, refine=False)
    broken = replace(fitted.exits[1], bias=fitted.exits[1].bias * np.float32("nan"))
    with pytest.raises(FolderError, match="has NaN or infinite numbers in the exit at depth 1"):
        replace(fitted, exits={**fitted.exits, 1: broken}).save(tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_every_use_names_the_weight(unsound: TorchEncoder, tmp_path: Path) -> None:
    pairs = read_pairs([(a, b) for a, b in zip(zoo.sentences(20), zoo.sentences(20, seed=1), strict=True)])
    uses: dict[str, Callable[[], object]] = {
        "encode": lambda: unsound.encode(TEXTS),
        "encode_iter": lambda: list(unsound.encode_iter(TEXTS)),
        "save": lambda: unsound.save(tmp_path / "saved"),
        "export": lambda: export(unsound, tmp_path / "exported", format="blocks-int8"),
        "fit": lambda: fit_exits(unsound, zoo.sentences(300)),
        "train": lambda: train(unsound, pairs, out=tmp_path / "run", options=TrainOptions(steps=1, batch=4)),
    }
    for use in uses.values():
        with pytest.raises(FolderError, match=f"{WEIGHT}"):
            use()
    assert list(tmp_path.iterdir()) == []
    assert unsound.cut(layers=1).encode(TEXTS).shape == (3, 32)  # the layer with the NaN is not run


def test_half_precision_that_overflows_says_so(encoder: Encoder) -> None:
    assert isinstance(encoder, TorchEncoder)
    model = copy.deepcopy(encoder.backbone.model).to(torch.bfloat16)
    with torch.no_grad():
        model.get_parameter(WEIGHT).fill_(3e38)
    half = replace(encoder, backbone=replace(encoder.backbone, model=model))
    with pytest.raises(FolderError, match=r"in bf16 gives NaN .* where a state is too large for that number format"):
        half.encode(TEXTS)


def test_blocks_never_give_nan(tmp_path: Path) -> None:
    load().cut(1, 32).save(tmp_path / "m")
    path = tmp_path / "m" / "exit_1.onnx"
    graph = onnx.load(path)
    weight = max(graph.graph.initializer, key=lambda one: len(one.raw_data))
    weight.raw_data = b"\0\0\xc0\x7f" * (len(weight.raw_data) // 4)
    path.write_bytes(graph.SerializeToString())
    manifest = Manifest.read(tmp_path / "m")
    assert manifest is not None
    manifest.with_files().write()
    with pytest.raises(
        FolderError, match="in int8 gives NaN instead of vectors at 1 layers, so its weights are damaged"
    ):
        load(tmp_path / "m").encode(["a"])


@pytest.fixture
def leaving_prompts_out(model_folder: Callable[..., Path], tmp_path: Path) -> Encoder:
    """A model whose pooling leaves out the tokens of its prompt, which it has by default."""
    shutil.copytree(model_folder("BERT"), tmp_path / "m")
    for name, values in (
        ("1_Pooling/config.json", {"include_prompt": False}),
        ("config_sentence_transformers.json", {"default_prompt_name": "query"}),
    ):
        path = tmp_path / "m" / name
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}))
    return load(tmp_path / "m", device="cpu").cut(layers=1)  # exporting a layer takes seconds


def test_blocks_that_leave_prompts_out_give_the_same_vectors(leaving_prompts_out: Encoder, tmp_path: Path) -> None:
    export(leaving_prompts_out, tmp_path / "blocks", format="blocks")
    blocks = load(tmp_path / "blocks")
    for prompt in (None, "query", "document"):
        vectors = leaving_prompts_out.encode(TEXTS, prompt_name=prompt)
        np.testing.assert_allclose(blocks.encode(TEXTS, prompt_name=prompt), vectors, atol=1e-5)


def test_one_graph_cannot_leave_prompts_out(leaving_prompts_out: Encoder, tmp_path: Path) -> None:
    with pytest.raises(FolderError, match=r"leaves its prompts out of pooling .*; use the blocks or"):
        export(leaving_prompts_out, tmp_path / "onnx", format="onnx")
    assert not (tmp_path / "onnx").exists()
