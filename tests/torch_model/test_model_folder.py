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
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from manifests import listed_again, without_hashes

from demitasse import Cut, DeviceError, Encoder, FolderError, load
from demitasse.encoding.exits import Exit
from demitasse.encoding.manifest import MANIFEST
from demitasse.torch_model.readout import Dense

TEXTS = zoo.sentences(20, seed=3)


def with_exits(encoder: Encoder, seed: int = 0) -> Encoder:
    """The same encoder with random exits below the last layer and a turned head."""
    random = np.random.default_rng(seed)
    exits = {
        depth: Exit(
            random.normal(size=(encoder.dims, encoder.state_dims)).astype(np.float32),
            random.normal(size=encoder.dims).astype(np.float32),
        )
        for depth in range(encoder.full.layers)
    }
    turn = torch.from_numpy(random.normal(size=(encoder.dims, encoder.dims)).astype(np.float32))
    return replace(encoder, exits=exits, head=(*encoder.head, Dense(turn)))


@pytest.mark.parametrize("name", zoo.BUILD)
def test_saved_cuts_open_here_and_in_sentence_transformers(
    name: str, tmp_path: Path, model_folder: Callable[..., Path]
) -> None:
    from sentence_transformers import SentenceTransformer

    plain = load(model_folder(name))
    for label, encoder in (("plain", plain), ("exits", with_exits(plain))):
        for cut in (Cut(3, 32), Cut(2, 32), Cut(1, 8), Cut(0, 8)):
            folder = tmp_path / f"{label}-{cut}"
            small = encoder.cut(*cut)
            if cut.layers == 0 and not encoder.backbone.runs_empty:
                with pytest.raises(FolderError, match="0 layers cannot be saved"):
                    small.save(folder)
                assert not folder.exists()
                continue
            small.save(folder)
            expected = small.encode(TEXTS)
            np.testing.assert_allclose(load(folder).encode(TEXTS), expected, atol=1e-5)
            theirs = SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
            np.testing.assert_allclose(theirs, expected, atol=1e-5)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(layers=st.integers(0, 3), dims=st.integers(1, 32), exits=st.booleans(), seed=st.integers(0, 9))
def test_any_cut_survives_saving_and_loading(
    layers: int, dims: int, exits: bool, seed: int, encoder: Encoder, tmp_path_factory: pytest.TempPathFactory
) -> None:
    original = (with_exits(encoder, seed) if exits else encoder).cut(layers, dims)
    folder = tmp_path_factory.mktemp("round") / "trip"
    original.save(folder)
    back = load(folder)
    assert back.full == original.full
    assert sorted(back.exits) == sorted(original.exits)
    np.testing.assert_allclose(back.encode(TEXTS), original.encode(TEXTS), atol=1e-5)
    # It can be cut further, and as well as the one in memory.
    smaller = Cut(layers // 2, (dims + 1) // 2)
    np.testing.assert_allclose(back.cut(*smaller).encode(TEXTS), original.cut(*smaller).encode(TEXTS), atol=1e-5)


def test_a_folder_in_half_precision_runs_in_float32(encoder: Encoder, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    ordered = with_exits(encoder)
    ordered.save(tmp_path / "m")
    for path in (tmp_path / "m").rglob("*.safetensors"):
        save_file({name: tensor.half() for name, tensor in load_file(path).items()}, path, {"format": "pt"})
    listed_again(tmp_path / "m")
    for layers in range(4):
        now, before = load(tmp_path / "m").cut(layers).encode(TEXTS), ordered.cut(layers).encode(TEXTS)
        np.testing.assert_allclose(now, before, atol=5e-3)


def test_the_manifest_of_a_saved_model(encoder: Encoder, tmp_path: Path) -> None:
    made = replace(
        with_exits(encoder),
        record={
            "source": {"name": "tiny"},
            "objective": {"name": "exits"},
            "cuts": [
                {"cut": "1x32", "held_out": {"cosine": 0.9}},
                {"cut": "3x8", "held_out": {"cosine": 0.8}},
            ],
        },
    )
    made.cut(layers=2).save(tmp_path / "m")
    manifest = json.loads((tmp_path / "m" / MANIFEST).read_text())
    assert manifest["schema"] == 1
    assert manifest["full"] == "2x32"
    assert manifest["exits"] == [0, 1, 2]
    assert manifest["cuts"] == [{"cut": "1x32", "held_out": {"cosine": 0.9}}]
    assert manifest["objective"] == {"name": "exits"}
    assert manifest["source"] == {"name": "tiny"}
    assert manifest["matryoshka_dimensions"] == [32]
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    assert config["num_hidden_layers"] == 2
    assert config["matryoshka_dimensions"] == [32]
    assert load(tmp_path / "m").record["objective"] == {"name": "exits"}


def test_nothing_is_pickled(encoder: Encoder, tmp_path: Path) -> None:
    with_exits(encoder).save(tmp_path / "m")
    kinds = {path.suffix for path in (tmp_path / "m").rglob("*") if path.is_file()}
    assert kinds <= {".json", ".safetensors", ".txt", ".jinja"}


def test_plain_transformers_folders_are_mean_pooled(tmp_path: Path) -> None:
    model = zoo.build("BERT")
    model.save_pretrained(tmp_path)
    zoo.tokenizer().save_pretrained(tmp_path)
    encoder = load(tmp_path)
    assert str(encoder.pooling) == "mean"
    assert encoder.full == Cut(3, 32)
    assert encoder.reader.max_tokens == 64


def test_positions_that_start_after_the_padding_index_limit_the_tokens(tmp_path: Path) -> None:
    zoo.build("RoBERTa").save_pretrained(tmp_path)
    tokenizer = zoo.tokenizer(pad_id=1)
    tokenizer.model_max_length = 10**30
    tokenizer.save_pretrained(tmp_path)
    encoder = load(tmp_path)
    assert encoder.reader.max_tokens == 62
    assert np.isfinite(encoder.encode(["kan " * 500])).all()


def test_truncate_dim_of_a_folder_is_used(tmp_path: Path) -> None:
    folder = zoo.write_folder(tmp_path / "m")
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"truncate_dim": 16}))
    assert load(folder).full == Cut(3, 16)


def test_saving_again_replaces_only_our_own_models(encoder: Encoder, tmp_path: Path) -> None:
    encoder.save(tmp_path / "m")
    encoder.cut(layers=1).save(tmp_path / "m")
    assert load(tmp_path / "m").full == Cut(1, 32)
    assert [path.name for path in tmp_path.iterdir()] == ["m"]

    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("ten years of work")
    with pytest.raises(FolderError, match=r"is not a demitasse model \(chapter.tex\); choose a new folder"):
        encoder.save(tmp_path / "thesis")
    assert (tmp_path / "thesis" / "chapter.tex").read_text() == "ten years of work"


def test_a_saved_copy_that_differs_is_refused(
    encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from demitasse.torch_model import model_folder as folder

    turned = replace(encoder, head=(Dense(torch.eye(32).flip(0)),))
    monkeypatch.setattr(folder, "_exit_tensors", lambda encoder: {"head.0.weight": np.eye(32, dtype=np.float32)})
    with pytest.raises(FolderError, match=r"gives different vectors .*nothing was written"):
        turned.save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def broken(encoder: Encoder, folder: Path, how: Callable[[Path], object]) -> Path:
    with_exits(encoder).save(folder)
    how(without_hashes(folder))
    return folder


def edit(name: str, **values: object) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        path = folder / name
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}))

    return change


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (edit(MANIFEST, schema=99), "has schema 99, and this demitasse .* reads schema 1"),
        (edit(MANIFEST, full="5x32"), "says 5 layers and config.json 3"),
        (edit(MANIFEST, full="3x99"), "says 99 dims, but 32 come out"),
        (edit(MANIFEST, exits=[0, 1, 2, 7]), r"exits\[3\] must be a whole number from 0 to 3, not 7"),
        (edit(MANIFEST, exits=[0, 1, 2, 3]), "do not agree"),
        (lambda f: (f / MANIFEST).write_text("{"), "cannot be read as JSON"),
        (lambda f: (f / MANIFEST).write_text("[]"), "has schema None"),
        (lambda f: (f / "exits.safetensors").unlink(), "exits.safetensors is missing"),
        (lambda f: (f / "exits.safetensors").write_bytes(b"no tensors"), "is not a complete safetensors file"),
        (lambda f: (f / "model.safetensors").write_bytes(b"junk" * 99), "no model can be read from"),
        (lambda f: _halve(f / "model.safetensors"), "no model can be read from"),
        (lambda f: (f / "model.safetensors").unlink(), "no model can be read from"),
        (lambda f: (f / "config.json").unlink(), "no model can be read from"),
        (lambda f: [(f / n).unlink() for n in ("tokenizer.json", "tokenizer_config.json")], "tokenizer"),
        (lambda f: (f / "1_Pooling" / "config.json").unlink(), "1_Pooling/config.json is missing"),
        (lambda f: (f / "modules.json").write_text("[{}]"), r"has no field 'modules\[0\].type'"),
        (edit("1_Pooling/config.json", pooling_mode="median"), "pooling mode 'median' is not known"),
    ],
)
def test_broken_folders_are_named(how: Callable[[Path], object], said: str, encoder: Encoder, tmp_path: Path) -> None:
    with pytest.raises(FolderError, match=said) as raised:
        load(broken(encoder, tmp_path / "m", how))
    assert "\n" not in str(raised.value)


def _halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def test_modules_that_cannot_be_cut_are_refused(tmp_path: Path) -> None:
    folder = zoo.write_folder(tmp_path / "m")
    modules = json.loads((folder / "modules.json").read_text())
    modules.append({"idx": 3, "name": "3", "path": "3_LayerNorm", "type": "sentence_transformers.models.LayerNorm"})
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(FolderError, match=r"has Transformer, Pooling, Normalize, LayerNorm; only"):
        load(folder)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"activation_function": "torch.nn.modules.activation.Softmax"}, "Softmax' cannot be cut"),
        ({"activation_function": "os.system"}, "os.system' cannot be cut"),
        ({"use_residual": True}, "has a residual"),
    ],
)
def test_dense_modules_that_cannot_be_cut_are_refused(change: dict[str, object], said: str, tmp_path: Path) -> None:
    folder = zoo.write_folder(tmp_path / "m", dense=12)
    edit("2_Dense/config.json", **change)(folder)
    with pytest.raises(FolderError, match=said):
        load(folder)


@pytest.mark.parametrize("name", ["./nowhere", "/no/such/folder", "a b c", ""])
def test_a_missing_folder_is_named(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FolderError, match="there is no folder"):
        load(name)


def test_a_hub_name_without_a_network_is_named() -> None:
    with pytest.raises(FolderError, match=r"no model of that name .*check the spelling and the network"):
        load("nobody/no-such-model")


def test_a_file_is_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "m").write_text("")
    with pytest.raises(FolderError, match="there is no folder"):
        load(tmp_path / "m")


def test_unknown_devices_and_dtypes_are_named(model_folder: Callable[..., Path]) -> None:
    with pytest.raises(DeviceError, match="device 'gpu' cannot be used here; use 'cpu'"):
        load(model_folder(), device="gpu")
    with pytest.raises(DeviceError, match="dtype 'int4' is not known; use 'float32'"):
        load(model_folder(), dtype="int4")


def test_a_dtype_that_would_kill_the_process_is_refused(
    model_folder: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from demitasse.torch_model import devices

    monkeypatch.setattr(devices, "_cpu_can_multiply", lambda dtype: False)
    with pytest.raises(DeviceError, match="dtype 'bf16' crashes on this CPU; use 'float32'"):
        load(model_folder(), dtype="bf16")
    monkeypatch.setattr(devices, "_cpu_can_multiply", lambda dtype: True)
    assert load(model_folder(), dtype="bf16").backbone.model.dtype is torch.bfloat16


def test_a_saved_model_can_be_moved(encoder: Encoder, tmp_path: Path) -> None:
    encoder.save(tmp_path / "a" / "m")
    shutil.move(tmp_path / "a" / "m", tmp_path / "b")
    np.testing.assert_array_equal(load(tmp_path / "b").encode(TEXTS), encoder.encode(TEXTS))


@pytest.mark.parametrize("path", ["../elsewhere", "/etc", "C:\\models", "1_Pooling/../../x"])
def test_a_module_outside_the_folder_is_refused(path: str, tmp_path: Path) -> None:
    folder = zoo.write_folder(tmp_path / "model", "BERT")
    modules = json.loads((folder / "modules.json").read_text())
    modules[1]["path"] = path
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(FolderError, match="which is outside the folder"):
        load(folder, device="cpu")
