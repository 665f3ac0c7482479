from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import zoo
from hypothesis import given
from hypothesis import strategies as st
from paths import ROOT

from demitasse import export, fit_exits, load
from demitasse.encoding.encoder import Encoder
from demitasse.encoding.fingerprints import fingerprint
from demitasse.exporting.export import export_traced
from demitasse.host.bundled import BUILT_IN
from demitasse.torch_model.torch_encoder import TorchEncoder


@pytest.fixture(scope="module")
def tiny(model_folder: Callable[..., Path]) -> TorchEncoder:
    encoder = load(model_folder("BERT", dense=16), device="cpu")
    assert isinstance(encoder, TorchEncoder)
    return encoder


@pytest.mark.parametrize("name", zoo.BUILD)
def test_a_fingerprint_survives_saving(name: str, model_folder: Callable[..., Path], tmp_path: Path) -> None:
    encoder = load(model_folder(name), device="cpu")
    encoder.save(tmp_path / "whole")
    assert load(tmp_path / "whole", device="cpu").fingerprint == encoder.fingerprint
    small = encoder.cut(2, 8)
    small.save(tmp_path / "small")
    assert load(tmp_path / "small", device="cpu").fingerprint == small.fingerprint != encoder.fingerprint


def test_a_fingerprint_with_exits_survives_too(encoder: Encoder, sentences: list[str], tmp_path: Path) -> None:
    elastic = fit_exits(encoder, sentences, order=False, refine=False)
    elastic.save(tmp_path / "m")
    assert load(tmp_path / "m", device="cpu").fingerprint == elastic.fingerprint != encoder.fingerprint


@pytest.fixture
def sentences() -> list[str]:
    return zoo.sentences(300)


def test_what_changes_a_vector_changes_the_fingerprint(tiny: TorchEncoder, model_folder: Callable[..., Path]) -> None:
    reader, (dense, *rest) = tiny.reader, [step for step in tiny.head if hasattr(step, "weight")]
    assert not rest
    moved = replace(dense, bias=dense.bias + 1e-3)
    heads = [tuple(moved if step is dense else step for step in tiny.head), tuple(reversed(tiny.head))]
    others = [
        load(model_folder("BERT"), device="cpu"),
        load(model_folder("MPNet", dense=16), device="cpu"),
        load(model_folder("BERT", dense=16, modes="cls"), device="cpu"),
        tiny.cut(dims=8),
        tiny.cut(layers=2),
        *(replace(tiny, head=head) for head in heads),
        replace(tiny, reader=replace(reader, max_tokens=8)),
        replace(tiny, reader=replace(reader, prompts={"query": "?"})),
        replace(tiny, reader=replace(reader, default_prompt="query")),
        replace(tiny, reader=replace(reader, lowercase=True)),
    ]
    names = [tiny.fingerprint, *(other.fingerprint for other in others)]
    assert len({*names}) == len(names)
    assert all(len(name) == 64 for name in names)


def test_one_weight_changes_the_fingerprint(tiny: TorchEncoder, model_folder: Callable[..., Path]) -> None:
    other = load(model_folder("BERT", dense=16), device="cpu")
    assert other.fingerprint == tiny.fingerprint
    again = load(model_folder("BERT", dense=16), device="cpu")
    assert isinstance(again, TorchEncoder)
    with torch.no_grad():
        next(iter(again.backbone.model.parameters()))[0, 0] += 1e-3
    assert again.fingerprint != tiny.fingerprint


def test_truncation_set_in_the_tokenizer_is_not_part_of_the_fingerprint(model_folder: Callable[..., Path]) -> None:
    encoder = load(model_folder("BERT"), device="cpu")
    assert isinstance(encoder, TorchEncoder)
    before = encoder.fingerprint
    other = load(model_folder("BERT"), device="cpu")
    other.reader.source.backend_tokenizer.enable_truncation(5)
    other.reader.source.backend_tokenizer.enable_padding()
    assert other.fingerprint == before


def test_number_formats_and_exports_differ(model_folder: Callable[..., Path], tmp_path: Path) -> None:
    folder = model_folder("BERT")
    encoder = load(folder, device="cpu").cut(layers=1)  # exporting a layer takes seconds
    half = load(folder, device="cpu", dtype="float16").cut(layers=1)
    assert (encoder.precision, half.precision) == ("fp32", "fp16")
    export(encoder, tmp_path / "fp32", format="blocks")
    export_traced(encoder, tmp_path / "int8", tmp_path / "fp32", format="blocks-int8")
    blocks = [load(tmp_path / name) for name in ("fp32", "int8")]
    assert [one.precision for one in blocks] == ["fp32", "int8"]
    assert len({encoder.fingerprint, half.fingerprint, *(one.fingerprint for one in blocks)}) == 4


def test_the_fingerprint_of_blocks_survives_copying_and_cutting(tmp_path: Path) -> None:
    built_in = load()
    shutil.copytree(BUILT_IN, tmp_path / "copy")
    assert load(tmp_path / "copy").fingerprint == built_in.fingerprint
    small = built_in.cut(1, 64)
    small.save(tmp_path / "small")
    assert load(tmp_path / "small").fingerprint == small.fingerprint != built_in.fingerprint


def test_a_fingerprint_is_computed_once(tiny: TorchEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    first = tiny.fingerprint
    monkeypatch.setattr(np, "ascontiguousarray", lambda array: pytest.fail("worked out again"))
    assert tiny.fingerprint == first


@given(st.lists(st.tuples(st.text(max_size=3), st.binary(max_size=6)), max_size=4), st.data())
def test_no_two_lists_of_arrays_are_the_same_bytes(named: list[tuple[str, bytes]], data: st.DataObject) -> None:
    """The bytes of names and arrays in another division: they must not have one name."""
    joined = b"".join(name.encode() + values for name, values in named)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(joined)), max_size=6)))
    pieces = [joined[a:b] for a, b in zip([0, *cuts], [*cuts, len(joined)], strict=True)]
    other = [(a.decode("latin-1"), b) for a, b in zip(pieces[::2], pieces[1::2], strict=False)]

    def name_of(arrays: list[tuple[str, bytes]]) -> str:
        return fingerprint({}, ((name, np.frombuffer(values, np.uint8)) for name, values in arrays))

    assert (name_of(named) == name_of(other)) == (named == other)


def test_shapes_and_types_are_part_of_a_fingerprint() -> None:
    zeros = [np.zeros((2, 3)), np.zeros((3, 2)), np.zeros(6), np.zeros((2, 3), np.int64), np.zeros(12, np.float32)]
    assert len({fingerprint({}, [("w", array)]) for array in zeros}) == len(zeros)


@pytest.mark.parametrize("change", [{"num_attention_heads": 2}, {"hidden_act": "relu"}, {"layer_norm_eps": 1e-2}])
def test_models_that_compute_differently_with_the_same_weights_differ(
    change: dict[str, object], model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    encoder = load(model_folder("BERT"), device="cpu")
    shutil.copytree(model_folder("BERT"), tmp_path / "m")
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    (tmp_path / "m" / "config.json").write_text(json.dumps({**config, **change}))
    other = load(tmp_path / "m", device="cpu")
    assert abs(other.encode(["kan lor"]) - encoder.encode(["kan lor"])).max() > 1e-6
    assert other.fingerprint != encoder.fingerprint


def test_the_side_that_is_truncated_is_part_of_it(model_folder: Callable[..., Path], tmp_path: Path) -> None:
    encoder = load(model_folder("BERT"), device="cpu")
    shutil.copytree(model_folder("BERT"), tmp_path / "m")
    path = tmp_path / "m" / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "truncation_side": "left"}))
    other = load(tmp_path / "m", device="cpu")
    long = [" ".join(zoo.WORDS)]
    assert abs(other.encode(long) - encoder.encode(long)).max() > 1e-3
    assert other.fingerprint != encoder.fingerprint


def test_the_built_in_model_has_the_fingerprint_that_results_name() -> None:
    recorded = json.loads((ROOT / "research" / "results" / "profile-built-in.json").read_text())["fingerprint"]
    assert load().fingerprint == recorded
