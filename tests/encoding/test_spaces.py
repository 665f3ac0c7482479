"""Spaces: a model and its cuts share one, in memory and on disk, on torch and exported; other models do not."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import zoo

from demitasse import Cut, Encoder, export, fit_exits, load
from demitasse.encoding.manifest import MANIFEST, Manifest
from demitasse.encoding.spaces import Space
from demitasse.torch_model.torch_encoder import TorchEncoder

SENTENCES = zoo.sentences(300, seed=2)


@pytest.fixture(scope="module")
def elastic(model_folder: Callable[..., Path]) -> Encoder:
    return fit_exits(load(model_folder("BERT"), device="cpu"), SENTENCES, refine=False, progress=False)


@pytest.mark.parametrize("name", zoo.BUILD)
def test_every_cut_of_every_architecture_shares_the_space(name: str, model_folder: Callable[..., Path]) -> None:
    encoder = load(model_folder(name), device="cpu")
    whole = encoder.space
    assert len({*whole.depths}) == encoder.full.layers + 1
    for layers in range(encoder.full.layers):
        cut = encoder.cut(layers=layers, dims=8)
        assert cut.space.depths == whole.depths[: layers + 1]
        assert cut.space.difference(whole) is None
        assert whole.difference(cut.space) is None


def test_a_saved_cut_shares_it(elastic: Encoder, tmp_path: Path) -> None:
    for cut in (Cut(3, 32), Cut(2, 8), Cut(1, 32)):
        elastic.cut(cut).save(tmp_path / str(cut))
        loaded = load(tmp_path / str(cut), device="cpu")
        assert loaded.space == elastic.cut(cut).space
        assert loaded.space.difference(elastic.space) is None


def test_half_precision_shares_it(elastic: Encoder, tmp_path: Path) -> None:
    elastic.save(tmp_path / "m")
    half = load(tmp_path / "m", device="cpu", dtype="float16")
    assert half.precision == "fp16"
    assert half.space == elastic.space


def test_fewer_tokens_share_it(elastic: Encoder, tmp_path: Path) -> None:
    elastic.save(tmp_path / "m")
    assert load(tmp_path / "m", device="cpu", max_seq_length=8).space == elastic.space


def test_an_export_shares_the_space_of_its_model(elastic: Encoder, tmp_path: Path) -> None:
    export(elastic, tmp_path / "m", format="blocks-int8", sentences=SENTENCES)
    blocks = load(tmp_path / "m")
    assert blocks.space == elastic.space
    blocks.cut(layers=1, dims=8).save(tmp_path / "cut")
    again = load(tmp_path / "cut")
    assert again.space == elastic.cut(layers=1).space


def test_an_export_that_does_not_say_has_a_space_of_its_own(tmp_path: Path) -> None:
    load().save(tmp_path / "old")
    manifest = json.loads((tmp_path / "old" / MANIFEST).read_text())
    assert len(manifest.pop("space")) == 7
    (tmp_path / "old" / MANIFEST).write_text(json.dumps(manifest))  # as they were before exports said it
    old = load(tmp_path / "old")
    assert not old.manifest.space  # type: ignore[attr-defined]
    assert len(old.space.depths) == 7
    assert old.space.difference(load().space) == "its weights"
    old.cut(2, 64).save(tmp_path / "m")
    assert load(tmp_path / "m").space == old.cut(layers=2).space
    assert load(tmp_path / "m").space.difference(old.space) is None


def test_other_weights_are_another_space(model_folder: Callable[..., Path], elastic: Encoder) -> None:
    plain = load(model_folder("BERT"), device="cpu")
    other = load(model_folder("ELECTRA"), device="cpu")
    assert plain.space.difference(other.space) == "its weights"
    assert plain.space.difference(elastic.space) == "its weights"  # exits are weights, too
    assert plain.space.difference(load().space) == "its weights"


def test_one_changed_weight_of_a_layer_is_another_space_from_that_layer_on(model_folder: Callable[..., Path]) -> None:
    encoder = load(model_folder("BERT"), device="cpu")
    changed = load(model_folder("BERT"), device="cpu")
    assert isinstance(changed, TorchEncoder)
    with torch.no_grad():
        next(changed.backbone.layers[1].parameters()).view(-1)[0] += 0.5
    assert changed.space.depths[:2] == encoder.space.depths[:2]
    assert changed.space.depths[2] != encoder.space.depths[2]
    assert changed.space.difference(encoder.cut(layers=1).space) is None
    assert changed.space.difference(encoder.space) == "its weights"


def test_another_tokenizer_or_prompt_is_another_space(elastic: Encoder) -> None:
    space = elastic.space
    assert space.difference(replace(space, tokenizer="other")) == "its tokenizer"
    assert space.difference(replace(space, prompts={"query": "query: "})) == "its prompts"
    assert space.difference(replace(space, default_prompt="query")) == "its prompts"


def test_a_manifest_with_a_broken_space_is_refused(tmp_path: Path) -> None:
    load().cut(1, 32).save(tmp_path / "m")
    manifest = Manifest.read(tmp_path / "m")
    assert manifest is not None
    replace(manifest, fields={**manifest.fields, "space": [1, 2]}).write()
    with pytest.raises(ValueError, match="space"):
        load(tmp_path / "m")


def test_it_names_itself() -> None:
    assert Space(("a", "b"), "t").fingerprint == "b"
