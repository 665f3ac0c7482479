from __future__ import annotations

from collections.abc import Callable
from typing import Any

import espresso_halves
import numpy as np
import pytest
import references as slow
import torch
import zoo
from references import GOLDEN, batch, difference, flat, golden_states, tensors

from demitasse.errors import DataError
from demitasse.objectives.compression import Principal, Published, alignment, published_target
from demitasse.objectives.published import Espresso, EspressoReleased
from demitasse.training.gradients import by_column
from demitasse.training.student import Student


def states(count: int) -> list[np.ndarray]:
    """The vectors of `count` batches."""
    return [flat(columns) for columns in batch(count, 3, rows=8)]


def published(temperature: float) -> tuple[object, object]:
    # Short vectors: those of long ones have singular values so alike that float32 cannot tell their axes apart.
    rows = np.float32(0.3 * states(1)[0]).astype(np.float64)
    torch.manual_seed(3)
    got = Published(temperature)(tensors([rows])[0], 5, {}, "")
    torch.manual_seed(3)
    return got, slow.published(rows, 5, temperature)


def principal(batches: int, momentum: float = 0.95, temperature: float = 1.0) -> tuple[object, object]:
    given, memory = states(batches), dict[str, torch.Tensor]()
    got = [Principal(momentum, temperature, 1.0)(rows, 5, memory, "depth 1") for rows in tensors(given)]
    return got[-1], slow.principal(given, 5, momentum, temperature)


COMPRESS: dict[str, Callable[[], tuple[object, object]]] = {
    "Published": lambda: published(1.0),
    "Published, cold": lambda: published(0.5),
    "Published, without KL": lambda: published(0.0),
    "Principal": lambda: principal(1),
    "Principal, third batch": lambda: principal(3),
    "Principal, quick and hot": lambda: principal(2, 0.3, 2.0),
}


@pytest.mark.parametrize("name", COMPRESS)
def test_a_compression_is_the_obvious_one(name: str) -> None:
    assert difference(*COMPRESS[name]()) < 1e-5


def golden_alignments() -> list[tuple[str, float, float]]:
    kept, target = (golden_states(depth)[:, :8] for depth in (4, 5))
    found = GOLDEN["alignment"]["loss_by_temperature"]
    return [(name, alignment(kept, target, float(name)).item(), golden) for name, golden in found.items()]


def test_the_alignment_is_that_of_angle_emb() -> None:
    for name, ours, golden in golden_alignments():
        assert ours == pytest.approx(golden, rel=1e-5), name


def test_without_compression_the_published_target_is_all_of_the_softmaxed_gram() -> None:
    (rows,) = states(1)
    target = published_target(tensors([rows])[0], 12).double().numpy()
    weights = np.array([slow.shares(row) for row in rows.T @ rows / 12**0.5])
    assert difference(target @ target.T, rows @ weights @ weights.T @ rows.T) < 1e-5


@pytest.mark.parametrize("compress", [Published(), Principal()])
def test_the_target_is_not_trained(compress: Published | Principal) -> None:
    rows = tensors(states(1), grad=True)[0]
    assert not published_target(rows, 5).requires_grad
    memory: dict[str, torch.Tensor] = {}
    compress(rows, 5, memory, "x").backward()
    assert rows.grad is not None
    assert rows.grad[:, :5].abs().sum() > 0
    assert not any(kept.requires_grad for kept in memory.values())
    if isinstance(compress, Published):
        assert rows.grad[:, 5:].abs().sum() == 0


def test_the_gradient_of_principal_is_that_with_the_target_held_still() -> None:
    (given,) = states(1)
    rows = torch.tensor(given, dtype=torch.float32, requires_grad=True)
    Principal(temperature=0.0, weight=1.0)(rows, 5, {}, "x").backward()
    unit = torch.nn.functional.normalize(rows.detach(), dim=-1)
    mean = unit.mean(0)
    _, vectors = torch.linalg.eigh((unit - mean).T @ (unit - mean) / len(unit))
    axes = vectors[:, -5:].flip(-1)
    axes = axes * axes.gather(0, axes.abs().argmax(0, keepdim=True)).sign()
    target = (unit - mean) @ axes
    again = torch.tensor(given, dtype=torch.float32, requires_grad=True)
    kept = torch.nn.functional.normalize(again, dim=-1)[:, :5] - mean[:5]
    ((kept - target).square().sum() / target.square().sum()).backward()
    assert again.grad is not None
    assert difference(rows.grad, again.grad.numpy()) < 1e-4


def test_names_keep_their_memories_apart() -> None:
    one, other = tensors(states(2))
    memory: dict[str, torch.Tensor] = {}
    Principal()(one, 5, memory, "depth 1")
    apart = Principal()(other, 5, memory, "depth 2").item()
    assert sorted(memory) == ["depth 1/mean", "depth 1/square", "depth 2/mean", "depth 2/square"]
    assert apart == Principal()(other, 5, {}, "depth 2").item()


def test_the_sign_of_an_axis_does_not_depend_on_the_batch() -> None:
    one, other = tensors(states(2))
    memory: dict[str, torch.Tensor] = {}
    Principal()(one, 5, memory, "x")
    first = Principal()._axes(torch.nn.functional.normalize(other, dim=-1), 5, memory, "x")[0]
    assert (first.gather(0, first.abs().argmax(0, keepdim=True)) > 0).all()


def test_a_momentum_of_one_would_learn_nothing() -> None:
    with pytest.raises(DataError, match="momentum"):
        Principal(momentum=1.0)


@pytest.mark.parametrize("objective", [Espresso(dims=8), EspressoReleased(dims=8)])
def test_long_vectors_drown_the_pairs_in_learn_to_compress(encoder: Any, objective: Any) -> None:
    student = Student(encoder, raw=True).eval()
    rows = by_column(student(encoder.reader.read(zoo.sentences(32))), 2)
    short, long = (espresso_halves.halves(student, length * rows, objective) for length in (1, 20))
    assert long["express_gradient"] == pytest.approx(short["express_gradient"], rel=1e-3)
    assert long["compress_gradient"] > 20 * short["compress_gradient"]
    assert long["cosine_of_whole_and_express"] < short["cosine_of_whole_and_express"]
