from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from loss_cases import LOSSES, YES_OR_NO
from references import batch, difference, tensors

from demitasse.objectives import losses


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_equals_its_reference(name: str) -> None:
    assert difference(*LOSSES[name]()) < 1e-5


def test_stacked_depths_give_the_same_as_each_depth_alone() -> None:
    stacked = torch.stack(tensors(batch(3, 3)))  # depths, columns, texts, dims
    a, b, c = stacked.unbind(1)
    labels, widths = torch.tensor(YES_OR_NO), [3, 8, 12]
    calls: dict[str, Callable[..., torch.Tensor]] = {
        "infonce": lambda a, b, c: losses.infonce(a, b, c, both_ways=True),
        "angle": lambda a, b, c: losses.angle(a, b, labels),
        "cosent": lambda a, b, c: losses.cosent(losses.cosine_pairs(a, b), labels),
        "labelled_infonce": lambda a, b, c: losses.labelled_infonce(a, b, labels),
        "nested_cosines": lambda a, b, c: losses.nested_cosines(a, b, widths),
        "feature_divergence": lambda a, b, c: losses.feature_divergence(a, b, 0.3),
        "cosine_distance": lambda a, b, c: losses.cosine_distance(a, b),
    }
    for name, call in calls.items():
        alone = torch.stack([call(a[depth], b[depth], c[depth]) for depth in range(3)])
        assert difference(call(a, b, c), alone.numpy()) < 1e-6, name


def test_the_length_of_a_vector_does_not_matter() -> None:
    a, b, c = tensors(batch(1, 3))[0]
    assert difference(losses.infonce(7 * a, b, 0.1 * c), losses.infonce(a, b, c).item()) < 1e-5
    assert difference(losses.angle_pairs(7 * a, b), losses.angle_pairs(a, b).numpy()) < 1e-5


def test_zero_vectors_give_finite_losses_and_gradients() -> None:
    vectors = torch.zeros(4, 8, requires_grad=True)
    loss = losses.infonce(vectors, vectors) + losses.nested_cosines(vectors, vectors, [2, 8]).sum()
    loss.backward()
    assert loss.isfinite()
    assert vectors.grad is not None
    assert vectors.grad.isfinite().all()


def test_equal_labels_give_no_loss() -> None:
    assert losses.cosent(torch.tensor([0.3, 0.9]), torch.tensor([0.5, 0.5])).item() == pytest.approx(0)
