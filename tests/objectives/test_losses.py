from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import references as slow
import torch
from references import batch, difference, tensors

from demitasse.objectives import losses

LABELS = [0.2, 1.0, 0.2, 0.0, 0.7]
YES_OR_NO = [1.0, 0.0, 1.0, 1.0, 0.0]


def split(columns: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Anchors, positives, and all negatives after one another."""
    return columns[0], columns[1], columns[2:].flatten(0, 1) if len(columns) > 2 else None


def infonce(columns: int, temperature: float = 0.05, *, both_ways: bool = False) -> tuple[object, object]:
    (rows,) = batch(1, columns)
    got = losses.infonce(*split(tensors([rows])[0]), temperature=temperature, both_ways=both_ways)
    return got, slow.infonce(rows, temperature, both_ways=both_ways)


def scored(name: str, dims: int = 12) -> tuple[object, object]:
    (rows,) = batch(1, 2, dims=dims)
    left, right = tensors([rows])[0]
    if name == "cosent":
        return losses.cosent(losses.cosine_pairs(left, right), torch.tensor(LABELS)), slow.cosent(rows, LABELS)
    if name == "angle":
        return losses.angle(left, right, torch.tensor(LABELS)), slow.angle(rows, LABELS)
    return losses.labelled_infonce(left, right, torch.tensor(YES_OR_NO)), slow.labelled_infonce(rows, YES_OR_NO)


def divergence(temperature: float) -> tuple[object, object]:
    teacher, student = (rows[0] for rows in batch(2, 1))
    got = losses.feature_divergence(*tensors([teacher, student]), temperature)
    return got, slow.feature_divergence(teacher, student, temperature)


def similarity(*, own: bool) -> tuple[object, object]:
    teacher, student = (rows[0] for rows in batch(2, 1))
    other = student if own else teacher
    rows, columns, seen = tensors([student, other, teacher])
    got = losses.similarity_divergence(rows, columns, losses.similarity_targets(seen, 0.1), 0.1)
    return got, slow.similarity_divergence(student, other, teacher, 0.1)


def nested() -> tuple[object, object]:
    rows, columns = batch(2, 1)
    widths = list(range(1, 13))
    got = losses.nested_cosines(*(part[0] for part in tensors([rows, columns])), widths)
    direct = [[[slow.cosine(u[:w], v[:w]) for v in columns[0]] for u in rows[0]] for w in widths]
    return got, np.array(direct)


# What we compute and what it should be, by name.
LOSSES: dict[str, Callable[[], tuple[object, object]]] = {
    "infonce": lambda: infonce(2),
    "infonce, hot": lambda: infonce(2, 0.5),
    "infonce, both ways": lambda: infonce(2, both_ways=True),
    "infonce, hard negatives": lambda: infonce(3),
    "infonce, hard negatives, both ways": lambda: infonce(3, both_ways=True),
    "infonce, three negatives each": lambda: infonce(5),
    "cosent": lambda: scored("cosent"),
    "angle": lambda: scored("angle"),
    "angle, odd width": lambda: scored("angle", dims=11),
    "labelled_infonce": lambda: scored("labelled_infonce"),
    "feature_divergence": lambda: divergence(1.0),
    "feature_divergence, cold": lambda: divergence(0.3),
    "similarity_divergence, own": lambda: similarity(own=True),
    "similarity_divergence, teacher's": lambda: similarity(own=False),
    "nested_cosines": nested,
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_is_the_obvious_one(name: str) -> None:
    assert difference(*LOSSES[name]()) < 1e-5


def test_depths_together_are_depths_one_by_one() -> None:
    stacked = torch.stack(tensors(batch(3, 3)))  # depths, columns, rows, dims
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


def test_the_length_of_a_row_does_not_matter() -> None:
    a, b, c = tensors(batch(1, 3))[0]
    assert difference(losses.infonce(7 * a, b, 0.1 * c), losses.infonce(a, b, c).item()) < 1e-5
    assert difference(losses.angle_pairs(7 * a, b), losses.angle_pairs(a, b).numpy()) < 1e-5


def test_rows_of_zeros_give_numbers() -> None:
    rows = torch.zeros(4, 8, requires_grad=True)
    loss = losses.infonce(rows, rows) + losses.nested_cosines(rows, rows, [2, 8]).sum()
    loss.backward()
    assert loss.isfinite()
    assert rows.grad is not None
    assert rows.grad.isfinite().all()


def test_equal_labels_ask_for_nothing() -> None:
    assert losses.cosent(torch.tensor([0.3, 0.9]), torch.tensor([0.5, 0.5])).item() == pytest.approx(0)
