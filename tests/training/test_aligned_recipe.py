from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zoo

from demitasse import (
    Aligned,
    DataError,
    Encoder,
    FolderError,
    Matryoshka,
    TrainOptions,
    load,
    load_teacher,
    read_pairs,
    train,
)
from demitasse.data.pairs import Pairs
from demitasse.encoding.exits import mean_cosine
from demitasse.encoding.teacher_space import joined
from demitasse.encoding.vectors import unit_length
from demitasse.torch_model.torch_encoder import TorchEncoder
from demitasse.training import aligned_recipe, refine_exits, vector_store

SENTENCES = list(dict.fromkeys(zoo.sentences(700, seed=3)))
OPTIONS = TrainOptions(steps=6, batch=24, batch_tokens=200)


@pytest.fixture(autouse=True)
def _few_order_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refine_exits, "ORDER_STEPS", 5)


def data(**options: Any) -> Pairs:
    """Plain sentences, and pairs."""
    pairs = list(zip(SENTENCES[300:400], SENTENCES[400:500], strict=True))
    return read_pairs(SENTENCES[:300], pairs, **options)


@pytest.fixture(scope="module")
def teachers(model_folder: Callable[..., Path]) -> tuple[str, str]:
    """One of 48 dims, and one of 32."""
    return str(model_folder("NomicBert", dense=48)), str(model_folder("ELECTRA"))


@pytest.fixture(scope="module")
def aligned(encoder: Encoder, teachers: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> TorchEncoder:
    """A model aligned with two teachers."""
    out = tmp_path_factory.mktemp("aligned") / "run"
    return train(encoder, data(), Aligned(teachers=teachers, weights=(3, 1)), out=out, options=OPTIONS)


def run_of(encoder: Encoder) -> Path:
    assert encoder.folder is not None
    return encoder.folder.parent


def test_every_depth_has_an_exit_and_the_space_is_saved(aligned: TorchEncoder) -> None:
    assert aligned.exit_depths == [0, 1, 2, 3]
    assert aligned.teacher_space is not None
    assert [teacher.dims for teacher in aligned.teacher_space.teachers] == [48, 32]
    assert [teacher.weight for teacher in aligned.teacher_space.teachers] == [0.75, 0.25]
    assert aligned.teacher_space.weight.shape == (32, 80)
    again = load(aligned.folder, device="cpu")
    assert again.teacher_space is not None
    assert again.teacher_space.teachers == aligned.teacher_space.teachers
    np.testing.assert_array_equal(again.teacher_space.weight, aligned.teacher_space.weight)
    manifest = json.loads((run_of(aligned) / "model" / "demitasse.json").read_text())
    names = [teacher["name"] for teacher in manifest["teacher_space"]["teachers"]]
    assert names == ["tiny", "tiny"]  # without the folders that they lie in


def test_teachers_encode_into_the_space_of_the_model(aligned: TorchEncoder, teachers: tuple[str, str]) -> None:
    texts = SENTENCES[500:560]
    together = load_teacher(aligned, *teachers, device="cpu")
    parts = [load(name, device="cpu").encode(texts) for name in teachers]
    expected = unit_length(aligned.teacher_space(joined(parts, (0.75, 0.25))))
    np.testing.assert_allclose(together.encode(texts), expected, atol=1e-5)
    assert together.full.dims == 32
    narrow = together.cut(dims=8)
    np.testing.assert_allclose(narrow.encode(texts), unit_length(expected[:, :8]), atol=1e-5)
    assert narrow.fingerprint != together.fingerprint
    assert together.count_tokens(texts[:3]).tolist() == load(teachers[0], device="cpu").count_tokens(texts[:3]).tolist()
    with pytest.raises(FolderError, match="2 models"):
        together.save("nowhere")


def test_the_model_starts_where_the_teachers_are_and_stays_there(
    encoder: Encoder, aligned: TorchEncoder, teachers: tuple[str, str]
) -> None:
    texts = SENTENCES[500:600]
    targets = load_teacher(aligned, *teachers, device="cpu").encode(texts)
    begun = load(run_of(aligned) / "start", device="cpu")
    for depth in range(4):
        start, end = (mean_cosine(model.cut(layers=depth).encode(texts), targets) for model in (begun, aligned))
        assert start > 0.8
        assert end > start - 0.02
    assert mean_cosine(encoder.encode(texts), targets) < 0.5


def test_a_single_teacher_is_an_ordinary_encoder(encoder: Encoder, teachers: tuple[str, str], tmp_path: Path) -> None:
    trained = train(encoder, data(), Aligned(teachers=teachers[0]), out=tmp_path / "run", options=OPTIONS)
    teacher = load_teacher(trained, teachers[0], device="cpu")
    assert isinstance(teacher, TorchEncoder)
    texts = SENTENCES[:20]
    expected = unit_length(trained.teacher_space(load(teachers[0], device="cpu").encode(texts)))
    np.testing.assert_allclose(teacher.encode(texts), expected, atol=1e-5)
    teacher.save(tmp_path / "next-size-up")
    again = load(tmp_path / "next-size-up", device="cpu")
    np.testing.assert_allclose(again.encode(texts), expected, atol=1e-5)
    small = trained.cut(layers=1, dims=8)
    assert load_teacher(small, teachers[0], device="cpu").encode(texts).shape == (20, 8)


def test_a_teacher_that_is_narrower_than_the_model_sets_its_dims(
    encoder: Encoder, model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    narrow = str(model_folder("BERT", dense=20))
    trained = train(encoder, data(), Aligned(teachers=narrow), out=tmp_path / "run", options=OPTIONS)
    assert str(trained.full) == "3x20"


def test_other_training_leads_out_of_the_space(aligned: TorchEncoder, tmp_path: Path) -> None:
    pairs = read_pairs(list(zip(SENTENCES[:40], SENTENCES[40:80], strict=True)))
    options = TrainOptions(steps=1, batch=8)
    assert train(aligned, pairs, Matryoshka(), out=tmp_path / "run", options=options).teacher_space is None
    with pytest.raises(DataError, match="was not aligned with teachers"):
        load_teacher(load(tmp_path / "run" / "model", device="cpu"))


def test_wrong_teachers_are_refused(aligned: TorchEncoder, teachers: tuple[str, str]) -> None:
    with pytest.raises(DataError, match=r"1 teachers were given, and .* has 2: tiny, tiny"):
        load_teacher(aligned, teachers[0])
    with pytest.raises(FolderError, match="is not the tiny that the model was aligned with"):
        load_teacher(aligned, teachers[1], teachers[0])
    with pytest.raises(FolderError, match="there is no folder 'tiny'"):
        load_teacher(aligned)


def test_blocks_have_the_space_too(aligned: TorchEncoder, teachers: tuple[str, str], tmp_path: Path) -> None:
    import demitasse

    demitasse.export(aligned, tmp_path / "blocks", format="blocks")
    blocks = load(tmp_path / "blocks")
    together = load_teacher(blocks, *teachers, device="cpu")
    texts = SENTENCES[:10]
    np.testing.assert_allclose(together.encode(texts), load_teacher(aligned, *teachers).encode(texts), atol=1e-6)
    blocks.cut(layers=1, dims=8).save(tmp_path / "small")
    small = load_teacher(load(tmp_path / "small"), *teachers, device="cpu")
    np.testing.assert_allclose(small.encode(texts), together.cut(dims=8).encode(texts), atol=1e-6)
    (tmp_path / "small" / "space.bin").write_bytes(b"short")
    with pytest.raises(FolderError, match=r"space\.bin"):
        load_teacher(load(tmp_path / "small"), *teachers)


def test_vectors_are_made_once_for_all_runs(
    encoder: Encoder, teachers: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = replace(OPTIONS, vectors=str(tmp_path / "vectors"))
    objective = Aligned(teachers=teachers)
    first = train(encoder, data(), objective, out=tmp_path / "one", options=options)
    files = sorted((tmp_path / "vectors").rglob("*.npy"))
    assert len(files) == 2
    # It is not opened again to encode.
    monkeypatch.setattr(aligned_recipe, "same_teacher", lambda *given: pytest.fail("it was opened"))
    second = train(encoder, data(), objective, out=tmp_path / "two", options=options)
    assert sorted((tmp_path / "vectors").rglob("*.npy")) == files
    assert not (tmp_path / "two" / "teachers").exists()
    np.testing.assert_array_equal(first.encode(SENTENCES[:9]), second.encode(SENTENCES[:9]))


def test_vectors_go_on_where_they_were(
    encoder: Encoder, teachers: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demitasse.training.teachers.PER_FILE", 50)
    options = replace(OPTIONS, vectors=str(tmp_path / "vectors"))
    whole = train(encoder, data(), Aligned(teachers=teachers[0]), out=tmp_path / "one", options=options)
    files = sorted((tmp_path / "vectors").rglob("*.npy"))
    assert len(files) > 3
    files[0].unlink()
    again = train(encoder, data(), Aligned(teachers=teachers[0]), out=tmp_path / "two", options=options)
    assert len(sorted((tmp_path / "vectors").rglob("*.npy"))) == len(files)
    np.testing.assert_allclose(whole.encode(SENTENCES[:9]), again.encode(SENTENCES[:9]), atol=1e-3)


def test_damaged_vectors_are_refused(encoder: Encoder, teachers: tuple[str, str], tmp_path: Path) -> None:
    options = replace(OPTIONS, vectors=str(tmp_path / "vectors"))
    objective = Aligned(teachers=teachers[0])
    train(encoder, data(), objective, out=tmp_path / "one", options=options)
    (file,) = (tmp_path / "vectors").rglob("*.npy")
    rows = np.load(file)
    rows["vector"][3] = np.nan
    np.save(file, rows)
    with pytest.raises(FolderError, match="NaN"):
        train(encoder, data(), objective, out=tmp_path / "two", options=options)
    np.save(file, rows["vector"])
    with pytest.raises(FolderError, match="damaged"):
        train(encoder, data(), objective, out=tmp_path / "three", options=options)


def test_a_resumed_run_goes_on_bit_for_bit(encoder: Encoder, teachers: tuple[str, str], tmp_path: Path) -> None:
    objective = Aligned(teachers=teachers, contrast=0.2, centre=True)
    options = replace(OPTIONS, save_every=2)
    straight = train(encoder, data(), objective, out=tmp_path / "straight", options=options)

    class Stopped(Exception):  # noqa: N818
        pass

    from demitasse.training import run

    save = run.Run._save

    def save_and_stop(self: run.Run, *given: Any) -> None:
        save(self, *given)
        if given[-1].step == 3:
            raise Stopped

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(run.Run, "_save", save_and_stop)
        train(encoder, data(), objective, out=tmp_path / "run", options=options)
    shutil.rmtree(tmp_path / "run" / "teachers")  # even these are made again
    resumed = train(encoder, data(), objective, out=tmp_path / "run", options=options, resume=True)
    np.testing.assert_array_equal(straight.encode(SENTENCES[:30]), resumed.encode(SENTENCES[:30]))


def test_teachers_read_roles_with_their_prompts(
    encoder: Encoder, model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    teacher = model_folder("ELECTRA")  # with prompts for queries and documents
    given = data(roles=["", "query/document"])
    trained = train(encoder, given, Aligned(teachers=str(teacher), prompts=True), out=tmp_path / "run", options=OPTIONS)
    assert trained.teacher_space is not None
    assert trained.teacher_space.teachers[0].prompts == {"query": "kan lor ", "document": "mist "}
    plain = load(teacher, device="cpu")
    seen = load_teacher(trained, teacher, device="cpu")
    for role in ("query", "document"):
        expected = unit_length(trained.teacher_space(plain.encode(SENTENCES[:9], prompt_name=role)))
        np.testing.assert_allclose(seen.encode(SENTENCES[:9], prompt_name=role), expected, atol=1e-5)
    folder = next((tmp_path / "run" / "teachers").iterdir())
    vectors = np.concatenate([np.load(file)["vector"] for file in folder.iterdir()])
    query = plain.encode([SENTENCES[300]], prompt_name="query")
    document = plain.encode([SENTENCES[400]], prompt_name="document")
    assert (vectors @ query.T).max() > 0.999
    assert (vectors @ document.T).max() > 0.999
    assert (vectors @ plain.encode([SENTENCES[0]], prompt="").T).max() > 0.999
    described = json.loads((tmp_path / "run" / "run.json").read_text())["data"]
    assert described[1]["roles"] == ["query", "document"]
    assert "roles" not in described[0]


def test_several_teachers_with_prompts_each_have_their_own(
    encoder: Encoder, model_folder: Callable[..., Path], tmp_path: Path
) -> None:
    names = str(model_folder("ELECTRA")), str(model_folder("NomicBert", dense=48))
    objective = Aligned(teachers=names, prompts=True)
    trained = train(
        encoder, data(roles=["sentence", "query/document"]), objective, out=tmp_path / "run", options=OPTIONS
    )
    together = load_teacher(trained, *names, device="cpu")
    parts = [load(name, device="cpu").encode(SENTENCES[:9], prompt_name="document") for name in names]
    expected = unit_length(trained.teacher_space(joined(parts, (0.5, 0.5))))
    np.testing.assert_allclose(together.encode_document(SENTENCES[:9]), expected, atol=1e-5)
    assert together.count_tokens(["kan"], prompt_name="query").tolist() == [5]


@pytest.mark.parametrize("roles", [["query/passage", ""], ["query"], "query/document"])
def test_bad_roles_are_refused(roles: Any) -> None:
    with pytest.raises(DataError, match="roles="):
        data(roles=roles)


def test_teachers_must_be_named_and_there(encoder: Encoder, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no teachers"):
        train(encoder, data(), Aligned(), out=tmp_path / "run", options=OPTIONS)
    with pytest.raises(FolderError, match="no folder"):
        train(encoder, data(), Aligned(teachers="not/there"), out=tmp_path / "run", options=OPTIONS)
    assert not (tmp_path / "run").exists()


def test_too_few_texts_are_refused(encoder: Encoder, teachers: tuple[str, str], tmp_path: Path) -> None:
    with pytest.raises(DataError, match="fits exits on at least"):
        train(encoder, read_pairs(SENTENCES[:50]), Aligned(teachers=teachers), out=tmp_path / "run", options=OPTIONS)


def test_vectors_of_no_text_are_missing() -> None:
    store = vector_store.VectorStore(Path("nowhere"), 4)
    assert store.missing(np.array([3, 3], np.uint64)).all()
    with pytest.raises(FolderError, match="no vector of some text"):
        list(store.parts(np.array([3], np.uint64)))
