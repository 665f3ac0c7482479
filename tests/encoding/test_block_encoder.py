from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import numpy as np
import onnx
import pytest
from manifests import listed_again, without_hashes

from demitasse import Cut, CutError, DataError, DeviceError, Encoder, FolderError, __version__, fit_exits, grid, load
from demitasse.encoding.batching import pace
from demitasse.encoding.block_encoder import BlockEncoder
from demitasse.encoding.block_files import FINGERPRINT, names_at
from demitasse.encoding.manifest import MANIFEST
from demitasse.host.bundled import BUILT_IN, corpus

TEXTS = corpus()[:60]


@pytest.fixture(scope="module")
def blocks() -> BlockEncoder:
    encoder = load()
    assert isinstance(encoder, BlockEncoder)
    return encoder


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(BUILT_IN, tmp_path / "copy"))


def test_vectors_are_unit_length_float32_in_input_order(blocks: Encoder) -> None:
    vectors = blocks.encode(TEXTS)
    assert vectors.shape == (60, 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(blocks.encode(TEXTS[::-1])[::-1], vectors, atol=1e-5)


def test_similar_meanings_are_close(blocks: Encoder) -> None:
    for cut in (Cut(6, 384), Cut(3, 128), Cut(1, 64), Cut(0, 128)):
        small = blocks.cut(*cut)
        same, other, question = small.encode(
            ["The cat sleeps on the sofa.", "The invoice is due in May.", "A cat is asleep on the couch."]
        )
        assert question @ same > question @ other + 0.2


def test_a_vector_is_the_same_alone_and_in_a_batch(blocks: Encoder) -> None:
    # From a word to more than the model takes, so that there is much padding.
    texts = [" ".join(TEXTS[start : start + (1, 2, 5, 30)[start % 4]]) for start in range(40)]
    for encoder in (blocks, blocks.cut(1, 32), blocks.cut(0, 384)):
        together = encoder.encode(texts)
        alone = np.concatenate([encoder.encode([text]) for text in texts])
        np.testing.assert_allclose(together, alone, rtol=0, atol=1e-5)
        for batch in (2, 7):
            parts = [encoder.encode(texts[::-1][start : start + batch]) for start in range(0, 40, batch)]
            np.testing.assert_allclose(np.concatenate(parts)[::-1], together, rtol=0, atol=1e-5)


def test_cuts_from_one_pass_equal_separate_cuts(blocks: Encoder) -> None:
    cuts = grid([0, 1, 6], [32, 384])
    for cut, vectors in blocks.encode_cuts(TEXTS, cuts).items():
        np.testing.assert_allclose(vectors, blocks.cut(*cut).encode(TEXTS), atol=1e-5)


def test_only_the_blocks_of_the_cut_are_opened(copy: Path) -> None:
    encoder = load(copy)
    assert isinstance(encoder, BlockEncoder)
    small = encoder.cut(layers=2)
    assert encoder.blocks.opened == []
    small.encode(TEXTS[:2])
    assert encoder.blocks.opened == ["embeddings", "exit_2", "layer_1", "layer_2"]


def test_a_saved_cut_has_only_its_blocks(blocks: Encoder, tmp_path: Path) -> None:
    blocks.cut(layers=1, dims=64).save(tmp_path / "small")
    files = {path.name for path in (tmp_path / "small").iterdir()}
    assert files == {MANIFEST, "tokenizer.json", *(f"{name}.onnx" for name in names_at(1))}
    again = load(tmp_path / "small")
    assert again.full == Cut(1, 64)
    np.testing.assert_allclose(again.encode(TEXTS), blocks.cut(1, 64).encode(TEXTS), atol=1e-6)
    with pytest.raises(CutError, match="deeper than this encoder"):
        again.cut(layers=2)


def test_the_manifest_of_a_saved_cut_keeps_what_still_holds(blocks: Encoder, tmp_path: Path) -> None:
    small = blocks.cut(layers=2, dims=100)
    small.save(tmp_path / "small")
    again = load(tmp_path / "small")
    assert again.fingerprint == small.fingerprint != blocks.fingerprint
    whole, part = (json.loads((folder / MANIFEST).read_text()) for folder in (BUILT_IN, tmp_path / "small"))
    for same in ("fingerprint", "precision", "source", "objective", "data", "reader"):
        assert part[same] == whole[same]
    # Of what was measured, as much as holds for the cut.
    assert {entry["cut"] for entry in whole["cuts"]} > {entry["cut"] for entry in part["cuts"]}
    assert all(Cut.parse(entry["cut"]) == Cut.parse(entry["cut"]).within(small.full) for entry in part["cuts"])
    assert part["against_torch"]["mean_cosine"].keys() == {"0", "1", "2"}
    assert [again.model_bytes(cut) for cut in grid([0, 2], [64])] == [
        blocks.model_bytes(cut) for cut in grid([0, 2], [64])
    ]


def test_a_cut_can_replace_the_folder_it_was_loaded_from(blocks: Encoder, tmp_path: Path) -> None:
    blocks.cut(layers=2, dims=100).save(tmp_path / "small")
    expected = blocks.cut(1, 32).encode(TEXTS)
    small = load(tmp_path / "small").cut(1, 32)
    with pytest.raises(FolderError, match="is the folder that the model was loaded from; choose a new folder, or"):
        small.save(tmp_path / "small")
    small.save(tmp_path / "small", force=True)
    np.testing.assert_allclose(load(tmp_path / "small").encode(TEXTS), expected, atol=1e-6)
    assert not (tmp_path / "small" / "layer_2.onnx").exists()


def test_a_stream_is_read_at_most_two_windows_ahead(blocks: Encoder) -> None:
    read = 0

    def endless() -> object:
        nonlocal read
        while True:
            read += 1
            yield "a small cup"

    vectors = list(islice(blocks.cut(layers=0).encode_iter(endless()), 3))  # type: ignore[arg-type]
    assert len(vectors) == 3
    assert read == 2 * pace("blocks", "cpu").window


def test_no_texts_give_no_vectors(blocks: Encoder) -> None:
    assert blocks.encode([]).shape == (0, 384)
    assert list(blocks.encode_iter([])) == []


def test_odd_texts_have_a_vector(blocks: Encoder) -> None:
    vectors = blocks.encode(["", "\ud83d", "\x00", "x" * 100_000, "word " * 5000])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("texts", ["one string", None, ["a", None]])
def test_bad_input_is_named(blocks: Encoder, texts: object) -> None:
    with pytest.raises(DataError, match="string"):
        blocks.encode(texts)  # type: ignore[arg-type]


def test_threads_may_share_an_encoder(copy: Path) -> None:
    encoder = load(copy)
    expected = encoder.cut(layers=2).encode(TEXTS)
    fresh = load(copy)
    with ThreadPoolExecutor(6) as pool:
        for vectors in pool.map(lambda _: fresh.cut(layers=2).encode(TEXTS), range(12)):
            np.testing.assert_allclose(vectors, expected, atol=1e-5)


def test_blocks_cannot_be_fitted(blocks: Encoder) -> None:
    with pytest.raises(DataError, match="cannot be fitted; load the model it was exported from"):
        fit_exits(blocks, TEXTS)


def half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def of_another_model(folder: Path) -> None:
    path = folder / "layer_2.onnx"
    model = onnx.load(path)
    assert model.metadata_props[0].key == FINGERPRINT
    size = len(model.metadata_props[0].value)
    model.metadata_props[0].value = ("012345678\nabcdef" * 8)[:size]  # the file keeps its size
    path.write_bytes(model.SerializeToString())


def garbled(folder: Path) -> None:
    path = folder / "layer_2.onnx"
    path.write_bytes(bytes(path.stat().st_size))


def not_text(folder: Path) -> None:
    path = folder / "layer_2.onnx"
    path.write_bytes(path.read_bytes().replace(b"LayerNormalization", b"LayerNormalizatio\xff"))


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "a truncated block": (lambda f: half(f / "layer_2.onnx"), r"layer_2.onnx has \d+ bytes and should have \d+; copy"),
    "a garbled block": (garbled, "layer_2.onnx cannot be opened"),
    "a name that is not text": (not_text, "layer_2.onnx cannot be opened"),
    "a missing block": (lambda f: (f / "layer_2.onnx").unlink(), "layer_2.onnx cannot be read .No such file"),
    "a missing exit": (lambda f: (f / "exit_0.onnx").unlink(), "exit_0.onnx cannot be read .No such file"),
    "a block of another model": (
        of_another_model,
        r"layer_2.onnx belongs to another model .its fingerprint begins with 012345678\\nabcdef,",
    ),
    "half a tokenizer": (lambda f: half(f / "tokenizer.json"), "tokenizer.json has .* bytes and should have"),
    "no tokenizer": (lambda f: (f / "tokenizer.json").unlink(), "tokenizer.json cannot be read"),
    "a later schema": (
        lambda f: (f / MANIFEST).write_text(json.dumps({"kind": "blocks", "schema": 99})),
        f"has schema 99, and this demitasse {__version__} reads schema 1; pip install --upgrade",
    ),
    "a bare manifest": (
        lambda f: (f / MANIFEST).write_text(json.dumps({"kind": "blocks", "schema": 1})),
        "has no field 'full'",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_folders_are_named(name: str, copy: Path, capfd: pytest.CaptureFixture[str]) -> None:
    breaks, said = BROKEN[name]
    breaks(without_hashes(copy))
    with pytest.raises(FolderError, match=said):
        load(copy).encode(["a"])
    assert capfd.readouterr() == ("", "")


@pytest.mark.posix
def test_neither_the_folder_nor_the_home_need_be_writable(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is cached beside the model or at home, so neither need be writable."""
    monkeypatch.setenv("HOME", "/nonexistent")
    for path in (copy, *copy.iterdir()):
        os.chmod(path, 0o555 if path.is_dir() else 0o444)
    before = {path: path.stat().st_mtime_ns for path in (copy, *copy.iterdir())}
    assert load(copy).encode(["a"]).shape == (1, 384)
    assert {path: path.stat().st_mtime_ns for path in (copy, *copy.iterdir())} == before
    os.chmod(copy, 0o755)


def test_a_dtype_or_device_that_is_not_available_is_refused() -> None:
    with pytest.raises(DeviceError, match="holds int8 blocks, so dtype 'float16' cannot be chosen"):
        load(dtype="float16")
    with pytest.raises(DeviceError, match=r"device 'cuda' is not offered .*; use 'cpu'"):
        load(device="cuda")
    assert load(device="cpu").place == "int8 blocks, cpu"


def test_blocks_open_after_the_working_directory_has_changed(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(copy.parent)
    encoder = load("copy")
    monkeypatch.chdir("/")
    assert encoder.encode(["a small cup"]).shape == (1, 384)


def test_a_manifest_cannot_ask_for_more_layers_than_it_lists_files(copy: Path) -> None:
    manifest = json.loads((copy / MANIFEST).read_text())
    (copy / MANIFEST).write_text(json.dumps({**manifest, "full": "999999999x64"}))
    with pytest.raises(FolderError, match=r"says 999999999 layers and lists \d+ files"):
        load(copy)


def test_nested_json_is_one_sentence(copy: Path) -> None:
    (copy / MANIFEST).write_text("[" * 200_000)
    with pytest.raises(FolderError, match="cannot be read as JSON"):
        load(copy)


@pytest.mark.parametrize("place", ["weights.bin", "sub/weights.bin", "../weights.bin", "{here}/weights.bin"])
def test_a_block_cannot_have_weights_in_another_file(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """onnxruntime looks for them in the working directory, where nothing is checked."""
    load().cut(1, 32).save(tmp_path / "m")
    graph = onnx.load(tmp_path / "m" / "exit_1.onnx")
    weight = max(graph.graph.initializer, key=lambda one: len(one.raw_data))
    for folder in (tmp_path, tmp_path / "m", tmp_path / "sub", tmp_path / "m" / "sub"):
        folder.mkdir(exist_ok=True)
        (folder / "weights.bin").write_bytes(weight.raw_data)
    weight.ClearField("raw_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value=place.format(here=tmp_path))
    (tmp_path / "m" / "exit_1.onnx").write_bytes(graph.SerializeToString())
    listed_again(tmp_path / "m")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FolderError, match=r"exit_1.onnx cannot be opened .*; copy or export the model again"):
        load(tmp_path / "m").encode(["a"])
