from __future__ import annotations

import copy
import os
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
import zoo
from manifests import listed_again, without_hashes

from demitasse import Cut, DataError, Encoder, FolderError, load
from demitasse.encoding.token_tally import TokenTally
from demitasse.encoding.vectors import Vectors
from demitasse.evaluation import embedding_cache as module
from demitasse.evaluation.embedding_cache import EmbeddingCache, encode_layers
from demitasse.torch_model.torch_encoder import TorchEncoder

TEXTS = list(dict.fromkeys(zoo.sentences(100)))[:90]


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHARD", 32)


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch, encoder: Encoder) -> list[str]:
    """The texts that went through the model so far."""
    seen: list[str] = []
    real = type(encoder)._embed_windows

    def counting(
        self: Encoder,
        parts: Iterable[list[str]],
        cuts: Sequence[Cut],
        prefix: str,
        tally: TokenTally,
        advance: Callable[[int], None],
    ) -> Iterator[dict[Cut, Vectors]]:
        held = list(parts)
        seen.extend(text for window in held for text in window)
        return real(self, held, cuts, prefix, tally, advance)  # type: ignore[arg-type]

    monkeypatch.setattr(type(encoder), "_embed_windows", counting)
    return seen


def vectors_of(
    encoder: Encoder, texts: list[str], layers: Iterable[int], folder: Path | None, prompt: str | None = None
) -> dict[int, Vectors]:
    cache = None if folder is None else EmbeddingCache(folder, encoder, prompt)
    return encode_layers(encoder, texts, list(layers), prompt, cache, lambda steps: None)


def same(ours: dict[int, Vectors], theirs: dict[int, Vectors]) -> bool:
    return ours.keys() == theirs.keys() and all(np.array_equal(ours[key], theirs[key]) for key in ours)


def test_vectors_are_those_of_encode(encoder: Encoder) -> None:
    for layers, vectors in vectors_of(encoder, TEXTS, [0, 2, 3], None).items():
        assert vectors.dtype == np.float32
        np.testing.assert_allclose(vectors, encoder.cut(layers=layers).encode(TEXTS), atol=1e-6)


def test_a_cache_changes_no_bit(encoder: Encoder, encoded: list[str], tmp_path: Path) -> None:
    plain = vectors_of(encoder, TEXTS, [1, 3], None)
    assert same(vectors_of(encoder, TEXTS, [1, 3], tmp_path), plain)
    assert len(encoded) == 2 * len(TEXTS)
    assert same(vectors_of(encoder, TEXTS, [1, 3], tmp_path), plain)
    assert same(vectors_of(encoder, TEXTS[::-1], [3], tmp_path), {3: plain[3][::-1]})
    assert len(encoded) == 2 * len(TEXTS)


def test_a_run_that_stopped_continues(encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = vectors_of(encoder, TEXTS, [1, 3], None)
    encoded: list[str] = []
    real = type(encoder).encode_cuts

    def failing(self: Encoder, texts: list[str], *more: object, **named: object) -> dict[Cut, Vectors]:
        if TEXTS[70] in texts and len(encoded) == 64:
            raise KeyboardInterrupt
        encoded.extend(texts)
        return real(self, texts, *more, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(type(encoder), "encode_cuts", failing)
    with pytest.raises(KeyboardInterrupt):
        vectors_of(encoder, TEXTS, [1, 3], tmp_path)
    assert encoded == TEXTS[:64]
    encoded.clear()
    assert same(vectors_of(encoder, TEXTS, [1, 3], tmp_path), whole)
    assert encoded == TEXTS[64:]


def test_only_texts_that_are_new_are_encoded(encoder: Encoder, encoded: list[str], tmp_path: Path) -> None:
    vectors_of(encoder, TEXTS[10:50], [3], tmp_path)
    encoded.clear()
    mixed = vectors_of(encoder, TEXTS, [3], tmp_path)
    assert encoded == [*TEXTS[:10], *TEXTS[50:]]
    np.testing.assert_allclose(mixed[3], vectors_of(encoder, TEXTS, [3], None)[3], atol=1e-6)


def test_a_layer_that_is_missing_is_encoded(encoder: Encoder, encoded: list[str], tmp_path: Path) -> None:
    vectors_of(encoder, TEXTS, [1, 2], tmp_path)
    encoded.clear()
    vectors_of(encoder, TEXTS, [2], tmp_path)
    assert encoded == []
    vectors_of(encoder, TEXTS, [2, 3], tmp_path)
    assert encoded == TEXTS
    vectors_of(encoder, TEXTS, [3], tmp_path)
    assert encoded == TEXTS


def test_models_and_prompts_have_separate_caches(encoder: Encoder, encoded: list[str], tmp_path: Path) -> None:
    calls = [(encoder, None), (encoder, "query"), (encoder.cut(dims=8), None), (encoder.cut(layers=2), None)]
    for number, (model, prompt) in enumerate(calls, 1):
        vectors = vectors_of(model, TEXTS, [1], tmp_path, prompt)[1]
        np.testing.assert_allclose(vectors, model.cut(layers=1).encode(TEXTS, prompt_name=prompt), atol=1e-6)
        assert len(list(tmp_path.iterdir())) == number
    encoded.clear()
    assert isinstance(encoder, TorchEncoder)
    by_default = replace(encoder, reader=replace(encoder.reader, default_prompt="query"))
    vectors_of(by_default, TEXTS, [1], tmp_path, "query")
    assert len(list(tmp_path.iterdir())) == 5  # another model, since its default is another
    encoded.clear()
    vectors_of(by_default, TEXTS, [1], tmp_path)  # the same prompt, named or by default
    assert encoded == []


def shards(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*.npy"))


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def one_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def other_array(path: Path) -> None:
    np.save(path, np.zeros(3))


def no_array(path: Path) -> None:
    path.write_bytes(b"")


def objects(path: Path) -> None:
    np.save(path, np.array([{}], dtype=object), allow_pickle=True)


@pytest.mark.parametrize("spoil", [cut_off, one_byte, other_array, no_array, objects])
def test_a_damaged_shard_is_written_again_with_a_warning(
    spoil: Callable[[Path], None], encoder: Encoder, encoded: list[str], tmp_path: Path
) -> None:
    whole = vectors_of(encoder, TEXTS, [3], tmp_path)
    before = shards(tmp_path)
    assert len(before) == 3
    spoil(before[1])
    encoded.clear()
    with pytest.warns(UserWarning, match=r"\.npy is damaged .* encoded again") as warned:
        again = vectors_of(encoder, TEXTS, [3], tmp_path)
    assert len(warned) == 1
    assert same(again, whole)
    assert len(encoded) in (32, 26)
    assert shards(tmp_path) == before
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vectors_of(encoder, TEXTS, [3], tmp_path)


def test_a_shard_of_another_model_is_not_taken(
    encoder: Encoder, model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    other = load(model_folder("RoBERTa"), device="cpu")
    vectors_of(other, TEXTS, [3], tmp_path)
    (foreign,) = {path.parent for path in shards(tmp_path)}
    vectors_of(encoder, TEXTS[:1], [3], tmp_path)
    (ours,) = {path.parent for path in shards(tmp_path)} - {foreign}
    for path in foreign.iterdir():
        (ours / path.name).write_bytes(path.read_bytes())
    with pytest.warns(UserWarning, match="another model"):
        vectors = vectors_of(encoder, TEXTS, [3], tmp_path)
    np.testing.assert_allclose(vectors[3], encoder.encode(TEXTS), atol=1e-6)


def test_nan_vectors_are_refused_and_not_stored(
    encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(encoder, TorchEncoder)
    model = copy.deepcopy(encoder.backbone.model)
    with torch.no_grad():
        model.get_parameter("encoder.layer.1.output.dense.weight")[0, 0] = float("nan")
    unsound = replace(encoder, backbone=replace(encoder.backbone, model=model))
    with pytest.raises(FolderError, match=r"in fp32 gives NaN instead of vectors at 2 layers, since encoder.layer.1"):
        vectors_of(unsound, TEXTS, [1, 2], tmp_path)
    assert shards(tmp_path) == []


def test_a_cache_is_not_a_file(encoder: Encoder, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    with pytest.raises(DataError, match=r"cache is a file; give a folder"):
        EmbeddingCache(tmp_path / "cache", encoder, None)


def test_texts_of_any_kind_have_a_key(encoder: Encoder, tmp_path: Path) -> None:
    texts = ["", "caf\u00e9", "half \ud83d", "x" * 10_000, "a\0b"]
    assert same(vectors_of(encoder, texts, [3], tmp_path), vectors_of(encoder, texts, [3], tmp_path))
    assert encode_layers(encoder, [], [3], None, None, lambda steps: None)[3].shape == (0, 32)


def test_progress_counts_every_text_once(encoder: Encoder, tmp_path: Path) -> None:
    for _ in range(2):
        steps: list[int] = []
        encode_layers(encoder, TEXTS, [1], None, EmbeddingCache(tmp_path, encoder, None), steps.append)
        assert sum(steps) == len(TEXTS)


def test_what_a_killed_run_left_is_swept(encoder: Encoder, tmp_path: Path) -> None:
    vectors_of(encoder, TEXTS, [1], tmp_path)
    (folder,) = tmp_path.iterdir()
    shards = sorted(folder.iterdir())
    half = folder / ".0123456789abcdef.npy.0123abcd.part"
    half.write_bytes(shards[0].read_bytes()[:100])
    os.utime(half, (0, 0))  # long ago, for platforms without locks
    EmbeddingCache(tmp_path, encoder, None)
    assert sorted(folder.iterdir()) == shards


def crafted(folder: Path, out: Path) -> Encoder:
    """Blocks that claim the fingerprint of those in `folder` and compute something else."""
    shutil.copytree(folder, out)
    graph = onnx.load(out / "exit_0.onnx")
    weight = max(graph.graph.initializer, key=lambda one: len(one.raw_data))
    weight.raw_data = weight.raw_data[::-1]
    (out / "exit_0.onnx").write_bytes(graph.SerializeToString())
    return load(listed_again(out))


@pytest.mark.parametrize("hashed", [True, False])
def test_a_model_that_claims_the_fingerprint_of_another_has_its_own_vectors(hashed: bool, tmp_path: Path) -> None:
    load().cut(0, 32).save(tmp_path / "honest")
    other = crafted(tmp_path / "honest", tmp_path / "crafted")
    if not hashed:
        without_hashes(tmp_path / "honest")
        other = load(without_hashes(tmp_path / "crafted"))
    honest = load(tmp_path / "honest")
    assert honest.fingerprint == other.fingerprint
    poisoned = vectors_of(other, TEXTS, [0], tmp_path / "cache")
    assert abs(poisoned[0] - honest.encode(TEXTS)).max() > 1e-2
    np.testing.assert_allclose(vectors_of(honest, TEXTS, [0], tmp_path / "cache")[0], honest.encode(TEXTS), atol=1e-6)


def test_names_have_all_digits_of_a_hash(encoder: Encoder, tmp_path: Path) -> None:
    """With 16 of them, two models or two shards with one name can be made in hours."""
    vectors_of(encoder, TEXTS, [1], tmp_path)
    (folder,) = tmp_path.iterdir()
    assert len(folder.name) == 64
    assert all(len(path.stem) == 64 for path in folder.iterdir())


@pytest.mark.parametrize("content", [b"PK\x03\x04" + b"\0" * 60, b"\x93NUMPY\x01\0\x10\0{'descr': (((((((", b""])
def test_what_is_no_array_is_encoded_again(content: bytes, encoder: Encoder, tmp_path: Path) -> None:
    expected = vectors_of(encoder, TEXTS, [1], tmp_path)
    for path in tmp_path.rglob("*.npy"):
        path.write_bytes(content)
    with pytest.warns(UserWarning, match="is damaged"):
        assert same(vectors_of(encoder, TEXTS, [1], tmp_path), expected)
