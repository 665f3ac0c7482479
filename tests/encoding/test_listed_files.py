"""Files that changed: none is ever used, whether it was damaged, exchanged or replaced after loading."""

from __future__ import annotations

import gc
import json
import os
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from manifests import listed_again, without_hashes

from demitasse import Cut, Encoder, FolderError, load, verify
from demitasse.encoding import loading
from demitasse.encoding.manifest import MANIFEST, Manifest
from demitasse.host.bundled import BUILT_IN

TEXTS = ["a small cup", "the bank of the river"]


@pytest.fixture
def blocks(tmp_path: Path) -> Path:
    """The built-in model at 2 layers."""
    load().cut(layers=2).save(tmp_path / "blocks")
    return tmp_path / "blocks"


@pytest.fixture
def torch_folder(encoder: Encoder, tmp_path: Path) -> Path:
    encoder.save(tmp_path / "torch")
    return tmp_path / "torch"


def exchange_layers(folder: Path) -> None:
    (folder / "layer_1.onnx").rename(folder / "aside")
    (folder / "layer_2.onnx").rename(folder / "layer_1.onnx")
    (folder / "aside").rename(folder / "layer_2.onnx")


def flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def zero(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[100_000:200_000] = bytes(100_000)
    path.write_bytes(content)


DAMAGE: dict[str, Callable[[Path], None]] = {
    "layers exchanged": exchange_layers,
    "a byte flipped": lambda folder: flip_a_byte(folder / "layer_2.onnx"),
    "bytes set to zero": lambda folder: zero(folder / "embeddings.onnx"),
    "a byte of an exit": lambda folder: flip_a_byte(folder / "exit_2.onnx"),
    "a byte of the tokenizer": lambda folder: flip_a_byte(folder / "tokenizer.json"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_block_is_never_used(damage: str, blocks: Path) -> None:
    DAMAGE[damage](blocks)
    with pytest.raises(FolderError, match=r"is not the file that was written \(its sha256 is not the one in .*again"):
        load(blocks).encode(TEXTS)


def test_a_damaged_block_is_not_saved_either(blocks: Path, tmp_path: Path) -> None:
    encoder = load(blocks)
    flip_a_byte(blocks / "exit_0.onnx")
    with pytest.raises(FolderError, match=r"exit_0.onnx is not the file that was written"):
        encoder.save(tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_every_byte_of_a_torch_folder_is_checked(torch_folder: Path) -> None:
    listed = json.loads((torch_folder / MANIFEST).read_text())
    names = {path.relative_to(torch_folder).as_posix() for path in torch_folder.rglob("*") if path.is_file()}
    assert listed["files"].keys() == listed["sha256"].keys() == names - {MANIFEST}
    assert "1_Pooling/config.json" in names
    for name in ("model.safetensors", "1_Pooling/config.json", "tokenizer.json", "exits.safetensors"):
        before = (torch_folder / name).read_bytes()
        flip_a_byte(torch_folder / name)
        with pytest.raises(FolderError, match=f"{name} is not the file that was written"):
            load(torch_folder)
        (torch_folder / name).write_bytes(before)
    assert load(torch_folder).full == Cut(3, 32)


def test_a_torch_folder_that_changes_while_it_is_read_is_refused(
    torch_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from demitasse.torch_model import model_folder

    real = model_folder._read

    def late(*arguments: object) -> object:
        encoder = real(*arguments)  # type: ignore[arg-type]
        (torch_folder / "config.json").write_bytes((torch_folder / "config.json").read_bytes())
        return encoder

    monkeypatch.setattr(model_folder, "_read", late)
    with pytest.raises(FolderError, match="was changed after it was loaded; load the model again"):
        load(torch_folder)


@pytest.mark.parametrize("hashes", [True, False])
def test_a_folder_replaced_after_loading_is_one_sentence(hashes: bool, blocks: Path) -> None:
    if not hashes:
        without_hashes(blocks)
    encoder = load(blocks)
    shallow = encoder.cut(layers=0).encode(TEXTS)
    # The same files under another model: what is open stays, and nothing of the other is used.
    exchange_layers(blocks)
    listed_again(blocks)
    np.testing.assert_array_equal(encoder.cut(layers=0).encode(TEXTS), shallow)
    for again in (encoder, encoder.cut(layers=1)):
        with pytest.raises(FolderError, match="was changed after it was loaded; load the model again") as raised:
            again.encode(TEXTS)
        assert "\n" not in str(raised.value)
    shutil.rmtree(blocks)
    with pytest.raises(FolderError, match="was changed after it was loaded; load the model again"):
        _ = encoder.fingerprint


def test_a_folder_replaced_by_the_same_blocks_still_works(blocks: Path) -> None:
    encoder = load(blocks)
    load(blocks).cut(layers=1).save(blocks, force=True)
    np.testing.assert_array_equal(encoder.cut(layers=1).encode(TEXTS), load().cut(layers=1).encode(TEXTS))
    with pytest.raises(FolderError, match="was changed after it was loaded"):
        encoder.encode(TEXTS)


@pytest.mark.parametrize("kind", ["blocks", "torch"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_folder_replaced_while_it_is_loaded_gives_the_new_model(  # noqa: PLR0913
    when: str,
    kind: str,
    blocks: Path,
    torch_folder: Path,
    encoder: Encoder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = blocks if kind == "blocks" else torch_folder
    small = (load(blocks) if kind == "blocks" else encoder).cut(layers=1, dims=8)
    expected = small.encode(TEXTS)
    small.save(tmp_path / "new")
    real, replaced = loading._open_as_it_is, False

    def replace_once() -> None:
        nonlocal replaced
        if not replaced:
            shutil.rmtree(folder)
            (tmp_path / "new").rename(folder)
            replaced = True

    def open_(*arguments: object) -> Encoder:
        if when == "before":
            replace_once()
        opened = real(*arguments)  # type: ignore[arg-type]
        replace_once()
        return opened

    monkeypatch.setattr(loading, "_open_as_it_is", open_)
    loaded = load(folder)
    assert replaced
    assert loaded.full == Cut(1, 8)
    np.testing.assert_allclose(loaded.encode(TEXTS), expected, atol=1e-6)


def test_a_folder_that_is_just_being_renamed_is_waited_for(blocks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where folders cannot be exchanged, two renames leave a moment without one."""
    aside = blocks.with_name(f".{blocks.name}.0123abcd.old")
    aside.mkdir()
    blocks.rename(aside / blocks.name)

    def put_back(seconds: float) -> None:
        (aside / blocks.name).rename(blocks)

    monkeypatch.setattr(loading.time, "sleep", put_back)
    assert load(blocks).full == Cut(2, 384)
    monkeypatch.setattr(loading.time, "sleep", lambda seconds: None)
    blocks.rename(aside / blocks.name)
    with pytest.raises(FolderError, match="there is no folder"):  # the process was killed
        load(blocks)


def test_folders_without_hashes_load(blocks: Path, torch_folder: Path) -> None:
    expected = load(blocks).encode(TEXTS)
    np.testing.assert_array_equal(load(without_hashes(blocks)).encode(TEXTS), expected)
    assert load(without_hashes(torch_folder)).full == Cut(3, 32)
    load(blocks).cut(layers=1).save(blocks, force=True)
    assert verify(blocks) == {}  # what is written now has them


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "C:\\secret", "sub/../../secret", "a\0b"])
def test_a_listed_file_outside_the_folder_is_not_read(name: str, torch_folder: Path) -> None:
    fields = json.loads((torch_folder / MANIFEST).read_text())
    fields["files"][name] = 1
    (torch_folder / MANIFEST).write_text(json.dumps(fields))
    with pytest.raises(FolderError, match=r"outside the folder|cannot be read") as raised:
        load(torch_folder)
    assert "\n" not in str(raised.value)


@pytest.mark.posix
@pytest.mark.parametrize("kind", ["blocks", "torch"])
def test_what_has_no_end_is_not_read(kind: str, blocks: Path, torch_folder: Path) -> None:
    folder, name = (blocks, "layer_1.onnx") if kind == "blocks" else (torch_folder, "vocab.txt")
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    fields = json.loads((folder / MANIFEST).read_text())
    fields["files"][name] = 0
    (folder / MANIFEST).write_text(json.dumps(fields))
    with pytest.raises(FolderError, match=f"{name} is not a file"):
        load(folder)


def test_verify_names_every_file_that_is_wrong(torch_folder: Path) -> None:
    assert verify(torch_folder) == {}
    for name in ("README.md", ".gitattributes", "LICENSE", ".git/HEAD"):  # about the model, and not read
        (torch_folder / name).parent.mkdir(exist_ok=True)
        (torch_folder / name).write_text("")
    assert verify(torch_folder) == {}
    flip_a_byte(torch_folder / "model.safetensors")
    (torch_folder / "1_Pooling" / "config.json").unlink()
    (torch_folder / "config.json").write_text("{}")
    (torch_folder / "adapter_config.json").write_text("{}")
    wrong = verify(torch_folder)
    assert list(wrong) == ["1_Pooling/config.json", "adapter_config.json", "config.json", "model.safetensors"]
    assert wrong["1_Pooling/config.json"] == "cannot be read (No such file or directory)"
    assert wrong["adapter_config.json"] == f"is not listed in {MANIFEST}"
    assert wrong["config.json"].startswith("has 2 bytes and should have")
    assert wrong["model.safetensors"].startswith("is not the file that was written")


def test_verify_needs_hashes(torch_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="lists no sha256, as of earlier releases; save or export the model again"):
        verify(without_hashes(torch_folder))
    (torch_folder / MANIFEST).unlink()
    with pytest.raises(FolderError, match=f"has no {MANIFEST}"):
        verify(torch_folder)
    with pytest.raises(FolderError, match="there is no folder"):
        verify(tmp_path / "nowhere")


def test_the_built_in_model_is_whole() -> None:
    assert verify() == {}
    manifest = Manifest.read(BUILT_IN)
    assert manifest is not None
    assert manifest.sha256.keys() == manifest.files.keys()


def test_errors_do_not_keep_the_damaged_file_in_memory(blocks: Path) -> None:
    damaged = bytearray((blocks / "embeddings.onnx").read_bytes())
    damaged[-1] ^= 1
    (blocks / "embeddings.onnx").write_bytes(damaged)
    encoder = load(blocks)
    gc.disable()  # what is freed at once has no need of it
    tracemalloc.start()
    try:
        for _ in range(3):
            with pytest.raises(FolderError, match="is not the file that was written"):
                encoder.encode(TEXTS * 50)
        assert tracemalloc.get_traced_memory()[0] < len(damaged)
    finally:
        tracemalloc.stop()
        gc.enable()
