"""Against the losses of sentence-transformers itself, on tiny models; and our loss inside its training."""

from __future__ import annotations

import gc
import importlib
import json
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import references
import torch
import zoo
from sentence_transformers import SentenceTransformer
from sentence_transformers_cases import (
    CASES,
    FULL,
    Case,
    compared,
    features,
    fresh,
    opened,
    our_value,
    ranking,
    their_value,
)
from torch import distributed, nn

from demitasse.errors import BackboneError, CutError, DataError, MissingExtra
from demitasse.integrations.sentence_transformers import ElasticLoss
from demitasse.objectives.compression import Principal
from demitasse.objectives.elastic import Elastic
from demitasse.objectives.pair_losses import AnglE, InfoNCE
from demitasse.objectives.protocol import Objective
from demitasse.objectives.published import AdaptiveLayer, Espresso, Matryoshka, Matryoshka2d, Starbucks, TwoDMSE


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_values_equal_those_of_sentence_transformers(
    name: str, normalize: bool, model_folder: Callable[..., Path]
) -> None:
    for ours, other in compared(CASES[name], model_folder("BERT", normalize=normalize)):
        assert references.difference(ours, other) < 1e-5


@pytest.mark.parametrize("name", [name for name in CASES if name != "AnglE, its angle term"])
def test_elastic_loss_gives_the_same_from_inside_the_library(name: str, model_folder: Callable[..., Path]) -> None:
    case, folder = CASES[name], model_folder("BERT")
    elastic = ElasticLoss(opened(folder), case.objective, case.loss)
    for seed in range(case.seeds):
        random.seed(seed)
        ours = elastic(features(opened(folder), case.columns), case.labels).item()
        assert references.difference(ours, their_value(case, folder, seed)) < 1e-5


@pytest.mark.parametrize("name", ["BERT", "ModernBERT", "Qwen3", "T5 encoder", "DeBERTa-v2", "GPT-2"])
def test_every_architecture_gives_the_loss_of_our_own_cuts(name: str, model_folder: Callable[..., Path]) -> None:
    folder, objective = model_folder(name, dense=24, normalize=False), AdaptiveLayer(layers_per_step=-1)
    model = opened(folder)
    ours = ElasticLoss(model, objective)(features(model, 3)).item()
    assert references.difference(ours, our_value(Case(objective, ranking), folder, 0)) < 1e-5


@pytest.mark.parametrize("objective", [Espresso(16), TwoDMSE(), Starbucks(), Matryoshka2d((8, 32), layers_per_step=-1)])
def test_training_steps_change_every_layer(objective: Objective, model_folder: Callable[..., Path]) -> None:
    # A plain loop: SentenceTransformerTrainer would need the package datasets.
    model = fresh(model_folder("BERT")).train()
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    loss = ElasticLoss(model, objective)
    optimizer = torch.optim.SGD(loss.parameters(), 0.1)
    for _ in range(2):
        optimizer.zero_grad()
        loss(features(model, 3)).backward()
        optimizer.step()
    still = [name for name, weight in model.named_parameters() if torch.equal(weight, before[name])]
    assert all("pooler" in name for name in still)
    assert {name.removeprefix("model.") for name, _ in loss.named_parameters()} == set(before)


def test_the_model_runs_once_per_column_and_is_left_unchanged(model_folder: Callable[..., Path]) -> None:
    model = fresh(model_folder("BERT")).train()
    model[0].auto_model.embeddings.eval()  # frozen by the user
    modes = {name: module.training for name, module in model.named_modules()}
    loss, runs = ElasticLoss(model, Espresso(16)), list[object]()
    loss(features(model, 2))  # finds the layers
    model[0].auto_model.embeddings.register_forward_hook(lambda *_: runs.append(1))
    given = features(model, 3)
    keys = [sorted(column) for column in given]
    loss(given)
    assert len(runs) == 3
    assert {name: module.training for name, module in model.named_modules()} == modes
    assert not any(layer._forward_pre_hooks for layer in model[0].auto_model.encoder.layer)
    assert "forward" not in vars(model) | vars(model[0])
    assert [sorted(column) for column in given] == keys
    assert loss(given).item() != loss(given).item()  # dropout


def test_ddp_and_compiled_models_give_the_same_loss(model_folder: Callable[..., Path], tmp_path: Path) -> None:
    model = opened(model_folder("BERT"))
    loss = ElasticLoss(model, Matryoshka2d((8, 32), layers_per_step=-1, dims_per_step=-1))
    plain = loss(features(model, 3)).item()
    loss.model = torch.compile(model, backend="eager")
    assert loss(features(model, 3)).item() == plain
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        runs = list[object]()
        loss.model = torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)
        loss.model.register_forward_hook(lambda *_: runs.append(1))
        assert loss(features(model, 3)).item() == plain
        assert len(runs) == 3  # DDP averages gradients only of what ran through it
    finally:
        loss.model = model  # DDP must be gone before its group
        gc.collect()
        distributed.destroy_process_group()
    loss.model = nn.Linear(1, 1)
    with pytest.raises(BackboneError, match="Linear does not contain a SentenceTransformer"):
        loss(features(model, 3))


def test_labels_are_scores_for_losses_that_use_them(model_folder: Callable[..., Path]) -> None:
    model = opened(model_folder("BERT"))
    pairs, labels = features(model, 2), torch.tensor([[1], [0], [1], [1], [0], [0]])
    find = ElasticLoss(model, FULL, InfoNCE())
    assert find(pairs, labels).item() == find(pairs).item()
    mixed = ElasticLoss(model, FULL, AnglE())
    assert mixed(pairs, labels).item() == mixed(pairs, labels.flatten().float()).item() != mixed(pairs).item()
    with pytest.raises(DataError, match="2 labels for 6 pairs"):
        mixed(pairs, labels[:2])
    with pytest.raises(DataError, match="one column"):
        mixed(pairs[:1])


def test_evaluation_data_is_not_remembered(model_folder: Callable[..., Path]) -> None:
    model = fresh(model_folder("BERT"))
    loss = ElasticLoss(model.eval(), Espresso(16, Principal()))
    loss(features(model, 2))
    assert not loss._memory
    loss.model = model.train()
    loss(features(model, 2))
    assert len(loss._memory) == 2 * zoo.DEPTH


def test_the_model_card_gets_a_description_and_a_citation(model_folder: Callable[..., Path]) -> None:
    for objective in (Matryoshka(), Espresso(16), TwoDMSE(), Starbucks()):
        loss = ElasticLoss(opened(model_folder("BERT")), objective)
        assert json.dumps(loss.get_config_dict()).count(type(objective).__name__) == 1
        assert loss.citation.lstrip().startswith("@")


def test_models_and_losses_that_cannot_be_used_are_refused(model_folder: Callable[..., Path]) -> None:
    model = fresh(model_folder("BERT")).train()
    with pytest.raises(DataError, match=r"use demitasse\.train"):
        ElasticLoss(model, Elastic())
    with pytest.raises(DataError, match="MultipleNegativesRankingLoss"):
        ElasticLoss(model, Espresso(16), ranking(model))
    for objective in (Matryoshka((64,)), Espresso(64)):
        with pytest.raises(CutError, match="of 32 dims"):
            ElasticLoss(model, objective)(features(model, 2))
    with pytest.raises(BackboneError, match="not a transformer"):
        ElasticLoss(SentenceTransformer(modules=[model[1]], device="cpu"), Espresso(16))([])
    model[0].auto_model.gradient_checkpointing_enable()
    with pytest.raises(BackboneError, match="gradient_checkpointing=False"):
        ElasticLoss(model, Espresso(16))(features(model, 2))


def test_without_the_library_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    monkeypatch.delitem(sys.modules, "demitasse.integrations.sentence_transformers")
    with pytest.raises(MissingExtra, match=r"pip install 'demitasse\[sentence-transformers\]'"):
        importlib.import_module("demitasse.integrations.sentence_transformers")
