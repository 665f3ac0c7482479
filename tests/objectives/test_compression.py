from __future__ import annotations

from typing import Any

import espresso_halves
import numpy as np
import pytest
import references as slow
import torch
import zoo
from angle_emb import golden_alignments
from objective_cases import COMPRESSIONS, batches_of_states
from references import difference, tensors

from demitasse.errors import DataError
from demitasse.objectives.compression import Principal, Published, published_target
from demitasse.objectives.published import Espresso, EspressoReleased
from demitasse.training.gradients import by_column
from demitasse.training.student import Student


@pytest.mark.parametrize("name", COMPRESSIONS)
def test_a_compression_equals_its_reference(name: str) -> None:
    assert difference(*COMPRESSIONS[name]()) < 1e-5


def test_the_alignment_equals_that_of_angle_emb() -> None:
    for name, ours, golden in golden_alignments():
        assert ours == pytest.approx(golden, rel=1e-5), name


def test_at_full_width_the_published_target_is_the_full_softmaxed_gram() -> None:
    (states,) = batches_of_states(1)
    target = published_target(tensors([states])[0], 12).double().numpy()
    weights = np.array([slow.shares(row) for row in states.T @ states / 12**0.5])
    assert difference(target @ target.T, states @ weights @ weights.T @ states.T) < 1e-5


@pytest.mark.parametrize("compress", [Published(), Principal()])
def test_the_target_is_not_trained(compress: Published | Principal) -> None:
    states = tensors(batches_of_states(1), grad=True)[0]
    assert not published_target(states, 5).requires_grad
    memory: dict[str, torch.Tensor] = {}
    compress(states, 5, memory, "x").backward()
    assert states.grad is not None
    assert states.grad[:, :5].abs().sum() > 0
    assert not any(kept.requires_grad for kept in memory.values())
    if isinstance(compress, Published):
        assert states.grad[:, 5:].abs().sum() == 0


def test_the_gradient_of_principal_treats_the_target_as_constant() -> None:
    (given,) = batches_of_states(1)
    states = torch.tensor(given, dtype=torch.float32, requires_grad=True)
    Principal(temperature=0.0, weight=1.0)(states, 5, {}, "x").backward()
    unit = torch.nn.functional.normalize(states.detach(), dim=-1)
    mean = unit.mean(0)
    _, vectors = torch.linalg.eigh((unit - mean).T @ (unit - mean) / len(unit))
    axes = vectors[:, -5:].flip(-1)
    axes = axes * axes.gather(0, axes.abs().argmax(0, keepdim=True)).sign()
    target = (unit - mean) @ axes
    again = torch.tensor(given, dtype=torch.float32, requires_grad=True)
    kept = torch.nn.functional.normalize(again, dim=-1)[:, :5] - mean[:5]
    ((kept - target).square().sum() / target.square().sum()).backward()
    assert again.grad is not None
    assert difference(states.grad, again.grad.numpy()) < 1e-4


def test_each_name_has_its_own_memory() -> None:
    one, other = tensors(batches_of_states(2))
    memory: dict[str, torch.Tensor] = {}
    Principal()(one, 5, memory, "depth 1")
    apart = Principal()(other, 5, memory, "depth 2").item()
    assert sorted(memory) == ["depth 1/mean", "depth 1/square", "depth 2/mean", "depth 2/square"]
    assert apart == Principal()(other, 5, {}, "depth 2").item()


def test_the_sign_of_an_axis_does_not_depend_on_the_batch() -> None:
    one, other = tensors(batches_of_states(2))
    memory: dict[str, torch.Tensor] = {}
    Principal()(one, 5, memory, "x")
    first = Principal()._axes(torch.nn.functional.normalize(other, dim=-1), 5, memory, "x")[0]
    assert (first.gather(0, first.abs().argmax(0, keepdim=True)) > 0).all()


def test_a_momentum_of_one_is_refused() -> None:
    with pytest.raises(DataError, match="momentum"):
        Principal(momentum=1.0)


@pytest.mark.parametrize("objective", [Espresso(dims=8), EspressoReleased(dims=8)])
def test_long_vectors_drown_the_pairs_in_learn_to_compress(encoder: Any, objective: Any) -> None:
    student = Student(encoder, raw=True).eval()
    embeddings = by_column(student(encoder.reader.read(zoo.sentences(32))), 2)
    short, long = (espresso_halves.halves(student, length * embeddings, objective) for length in (1, 20))
    assert long["express_gradient"] == pytest.approx(short["express_gradient"], rel=1e-3)
    assert long["compress_gradient"] > 20 * short["compress_gradient"]
    assert long["cosine_of_whole_and_express"] < short["cosine_of_whole_and_express"]
