from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers as tf
import zoo

from demitasse import BackboneError
from demitasse.torch_model.backbone import Backbone, find_backbone
from demitasse.torch_model.hf_weights import read_model

CPU = torch.device("cpu")


def whole(hidden: torch.Tensor) -> torch.Tensor:
    return hidden


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", zoo.BUILD)
def test_every_state_is_the_output_of_the_truncated_model(name: str, side: str) -> None:
    model = zoo.build(name)
    backbone = find_backbone(model)
    batch = zoo.padded_batch(model, side)
    with torch.no_grad():
        states = backbone.states(batch, range(zoo.DEPTH + 1), whole)
        for depth in range(zoo.DEPTH + 1):
            alone = backbone.truncated(depth)
            assert alone.depth == depth
            real = batch["attention_mask"].bool()
            torch.testing.assert_close(alone.states(batch, [depth], whole)[depth][real], states[depth][real])
            if depth == 0 and name == "DeBERTa-v2":  # transformers cannot run one without layers
                output = model.embeddings(batch["input_ids"], mask=batch["attention_mask"])
            else:
                # The plain forward pass of transformers, nothing of ours in between.
                empty = replace(backbone, runs_empty=True).truncated(depth).model
                assert empty.config.num_hidden_layers == depth
                output = empty(**batch).last_hidden_state
            torch.testing.assert_close(states[depth][real], output[real], atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", zoo.BUILD)
def test_the_last_state_is_the_models_own_output(name: str) -> None:
    model = zoo.build(name)
    batch = zoo.padded_batch(model, "right")
    with torch.no_grad():
        expected = model(**batch).last_hidden_state
        state = find_backbone(model).states(batch, [zoo.DEPTH], whole)[zoo.DEPTH]
    torch.testing.assert_close(state, expected, atol=0, rtol=0)


@pytest.mark.parametrize("name", ["ModernBERT", "Qwen3", "Llama", "Gemma3", "T5 encoder", "GPT-2"])
def test_the_final_norm_is_found_and_matters(name: str) -> None:
    model = zoo.build(name)
    backbone = find_backbone(model)
    assert len(backbone.tail_names) == 1
    batch = zoo.padded_batch(model, "right")
    with torch.no_grad():
        with_norm = backbone.states(batch, [1], whole)[1]
        bare = Backbone(model, backbone.layers_name, (), backbone.width, backbone.depth)
        assert (bare.states(batch, [1], whole)[1] - with_norm).abs().max() > 0.05


@pytest.mark.parametrize("name", zoo.BUILD)
def test_truncation_shares_weights_and_does_not_change_the_model(name: str) -> None:
    model = zoo.build(name)
    before = model.config.to_dict()
    backbone = find_backbone(model)
    cut = backbone.truncated(2)
    ours = {id(parameter) for parameter in model.parameters()}
    assert {id(parameter) for parameter in cut.model.parameters()} < ours
    assert len(backbone.layers) == zoo.DEPTH
    assert model.config.to_dict() == before
    assert sum(p.numel() for p in cut.model.parameters()) == backbone.parameters_at(2)


@pytest.mark.parametrize("name", zoo.BUILD)
def test_a_truncated_model_survives_saving_and_loading(name: str, tmp_path: Path) -> None:
    model = zoo.build(name)
    backbone = find_backbone(model)
    batch = zoo.padded_batch(model, "right")
    for depth in range(0 if backbone.runs_empty else 1, zoo.DEPTH + 1):
        folder = tmp_path / str(depth)
        backbone.truncated(depth).model.save_pretrained(folder)
        read = find_backbone(read_model(str(folder), torch.float32, CPU))
        assert read.depth == depth
        with torch.no_grad():
            expected = backbone.states(batch, [depth], whole)[depth]
            torch.testing.assert_close(read.states(batch, [depth], whole)[depth], expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"num_hidden_layers": 3, "num_hidden_groups": 1}, "has no list of 3 layers"),
        (
            {"num_hidden_layers": 2, "num_hidden_groups": 1, "inner_group_num": 2},
            "does not run each of its 2 layers once",
        ),
    ],
)
def test_shared_layers_are_refused(options: dict[str, int], reason: str) -> None:
    config = tf.AlbertConfig(
        vocab_size=99,
        embedding_size=16,
        hidden_size=32,
        num_attention_heads=4,
        intermediate_size=48,
        **options,
    )
    with pytest.raises(BackboneError, match=f"AlbertModel {reason}.*so it cannot be cut"):
        find_backbone(tf.AlbertModel(config))


def test_a_model_that_changes_its_output_after_the_layers_is_refused() -> None:
    class Odd(tf.BertModel):
        def forward(self, *args: object, **kwargs: object) -> object:
            output = super().forward(*args, **kwargs)
            output.last_hidden_state = output.last_hidden_state * 2
            return output

    with pytest.raises(BackboneError, match="Odd truncated at 0 layers gives different states"):
        find_backbone(Odd(tf.BertConfig(**zoo._ENCODER)))


def test_cuts_that_share_layers_can_run_at_the_same_time() -> None:
    backbone = find_backbone(zoo.build("BERT"))
    batch = zoo.padded_batch(backbone.model, "right")
    cuts = [backbone.truncated(depth) for depth in (1, 2, 3)]
    with torch.no_grad():
        expected = [cut.states(batch, range(cut.depth + 1), whole) for cut in cuts]
    wrong: list[str] = []

    def work(cut: Backbone, right: dict[int, torch.Tensor]) -> None:
        for _ in range(30):
            with torch.no_grad():
                states = cut.states(batch, range(cut.depth + 1), whole)
            if states.keys() != right.keys() or any(not torch.equal(states[k], right[k]) for k in right):
                wrong.append(str(cut.depth))

    threads = [threading.Thread(target=work, args=pair) for pair in zip(cuts, expected, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_gradients_reach_every_layer_below_a_state() -> None:
    backbone = find_backbone(zoo.build("ModernBERT"))
    batch = zoo.padded_batch(backbone.model, "right")
    backbone.states(batch, [2], whole)[2].sum().backward()
    reached = [any(p.grad is not None and p.grad.any() for p in layer.parameters()) for layer in backbone.layers]
    assert reached == [True, True, False]
