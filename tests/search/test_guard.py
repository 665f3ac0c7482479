"""The guard: any cut and precision of the model that an index was made with may search it, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import zoo

from demitasse import Encoder, FolderError, Index, Matryoshka, TrainOptions, fit_exits, load, read_pairs, train
from demitasse.search.description import Description

TEXTS = zoo.sentences(20, seed=3)


@pytest.fixture(scope="module")
def elastic(model_folder: Callable[..., Path]) -> Encoder:
    return fit_exits(load(model_folder("BERT"), device="cpu"), zoo.sentences(300), refine=False, progress=False)


@pytest.fixture
def folder(elastic: Encoder, tmp_path: Path) -> Path:
    return Index.build(elastic, TEXTS, tmp_path / "index").folder


def test_any_cut_of_the_model_may_search(elastic: Encoder, folder: Path, tmp_path: Path) -> None:
    """An export, too: tests/encoding/test_spaces.py."""
    elastic.cut(2, 16).save(tmp_path / "cut")
    for encoder in (elastic.cut(layers=0), elastic.cut(dims=8), load(tmp_path / "cut", device="cpu")):
        assert len(Index.open(folder, encoder).search(TEXTS[0], k=3)) == 3


def test_a_deep_query_may_search_a_shallow_index(elastic: Encoder, tmp_path: Path) -> None:
    index = Index.build(elastic.cut(1, 16), TEXTS, tmp_path / "index")
    deep = Index.open(tmp_path / "index", elastic)
    assert deep.search(TEXTS[0], k=3) == index.search(TEXTS[0], k=3)  # at the depth of the texts, unless told otherwise
    assert len(deep.search(TEXTS[0], k=3, layers=3)) == 3


@pytest.mark.parametrize("other", ["plain", "another of the same width", "trained", "built-in"])
def test_another_model_is_refused_with_the_command_that_indexes_again(
    other: str, elastic: Encoder, folder: Path, tmp_path: Path, model_folder: Callable[..., Path]
) -> None:
    if other == "trained":
        pairs = read_pairs([(text, f"{text} kan") for text in TEXTS])
        options = TrainOptions(steps=2, batch=4, warmup=0)
        encoder = train(elastic, pairs, Matryoshka(), out=tmp_path / "run", options=options)
    else:
        names = {"plain": "BERT", "another of the same width": "RoBERTa"}
        encoder = load() if other == "built-in" else load(model_folder(names[other]), device="cpu")
    with pytest.raises(FolderError) as refused:
        Index.open(folder, encoder)
    said = str(refused.value)
    assert "is another model (its weights differ)" in said
    option = "" if other == "built-in" else f" --model {encoder.folder or encoder.name}"
    assert said.endswith(f"index the texts again: demitasse index rebuild {folder}{option}")


@pytest.mark.parametrize(
    ("change", "said"), [("tokenizer", "its tokenizer differs"), ("prompts", "its prompts differ")]
)
def test_another_reading_of_texts_is_refused(change: str, said: str, elastic: Encoder, folder: Path) -> None:
    description = Description.read(folder)
    other: Any = "other" if change == "tokenizer" else {"query": "query: "}
    changed = replace(description, space=replace(description.space, **{change: other}))
    changed.write(folder)
    with pytest.raises(FolderError, match=said):
        Index.open(folder, elastic)


def test_a_model_that_changed_where_it_was_is_refused(
    elastic: Encoder, tmp_path: Path, model_folder: Callable[..., Path]
) -> None:
    elastic.save(tmp_path / "m")
    Index.build(load(tmp_path / "m", device="cpu"), TEXTS, tmp_path / "index")
    assert Index.open(tmp_path / "index").search(TEXTS[0], k=1)
    load(model_folder("RoBERTa"), device="cpu").save(tmp_path / "m", force=True)
    index = Index.open(tmp_path / "index")
    with pytest.raises(FolderError, match="is another model"):
        index.search("kan")


def test_what_the_folder_remembers(elastic: Encoder, folder: Path) -> None:
    said = json.loads((folder / "index.json").read_text())
    assert said["kind"] == "index"
    assert said["cut"] == "3x32"
    assert said["vectors"] == "int8"
    assert said["space"] == list(elastic.space.depths)
    assert said["tokenizer"] == elastic.space.tokenizer
    assert said["prompts"] == {"query": "kan lor ", "document": "mist "}
    assert said["model"]["precision"] == "fp32"
    assert Index.open(folder, elastic).fingerprint == elastic.space.fingerprint


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("schema", 2, "not of schema 1"),
        ("kind", "profile", "not the description of an index"),
        ("vectors", "float64", "vectors must be one of int8"),
        ("cut", "3", "cut must be a cut"),
        ("space", ["a"], "1 fingerprints for 3 layers"),
        ("space", [1], "must be a string"),
        ("model", None, "has no field 'model'"),
        ("prompts", ["a"], "prompts must be an object"),
    ],
)
def test_a_broken_description_is_one_sentence(field: str, value: object, said: str, folder: Path) -> None:
    plain = json.loads((folder / "index.json").read_text())
    (folder / "index.json").write_text(json.dumps(plain | {field: value}))
    with pytest.raises(FolderError, match=said):
        Index.open(folder)
