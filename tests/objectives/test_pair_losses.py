from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import references as slow
import torch
from references import GOLDEN, batch, difference, golden_angle, golden_columns, golden_labels, golden_states, tensors

from demitasse.errors import DataError
from demitasse.objectives import losses
from demitasse.objectives.pair_losses import AnglE, CoSENT, InfoNCE, PairLoss

WIDTHS = [4, 7, 12]
GRADED = [0.2, 1.0, 0.2, 0.0, 0.7]
YES_OR_NO = [1.0, 0.0, 1.0, 1.0, 0.0]
ALL = AnglE(cosine_weight=0.7, in_batch_weight=1.5, contrast_weight=2.0, angle_weight=0.4)
WEIGHTS = (0.7, 1.5, 2.0, 0.4)

# A loss, the number of columns, the labels, and the same loss as one slow function of columns.
CASES: dict[str, tuple[PairLoss, int, list[float] | None, Callable[[np.ndarray], float]]] = {
    "InfoNCE": (InfoNCE(), 2, None, slow.infonce),
    "InfoNCE, negatives": (InfoNCE(0.1), 4, None, lambda rows: slow.infonce(rows, 0.1)),
    "InfoNCE, both ways": (InfoNCE(both_ways=True), 3, None, lambda rows: slow.infonce(rows, both_ways=True)),
    "InfoNCE, scores": (InfoNCE(0.1), 2, GRADED, lambda rows: slow.cosent(rows, GRADED, 10.0)),
    "CoSENT": (CoSENT(), 2, GRADED, lambda rows: slow.cosent(rows, GRADED)),
    "CoSENT, triples": (CoSENT(5.0), 3, None, lambda rows: slow.cosent(rows, None, 5.0)),
    "AnglE, scores": (ALL, 2, YES_OR_NO, lambda rows: slow.angle_mix(rows, YES_OR_NO, WEIGHTS)),
    "AnglE, graded": (ALL, 2, GRADED, lambda rows: slow.angle_mix(rows, GRADED, WEIGHTS)),
    "AnglE, pairs": (ALL, 2, None, lambda rows: slow.angle_mix(rows, None, WEIGHTS)),
    "AnglE, triples": (ALL, 3, None, lambda rows: slow.angle_mix(rows, None, WEIGHTS)),
    "AnglE, defaults": (AnglE(), 3, None, lambda rows: slow.angle_mix(rows, None, (0, 1, 1, 0.02))),
}


def compared(name: str) -> tuple[object, object]:
    """Our loss at three widths, and the slow one."""
    loss, columns, labels, reference = CASES[name]
    (rows,) = batch(1, columns)
    scores = None if labels is None else torch.tensor(labels)
    return loss(tensors([rows])[0], WIDTHS, scores), [reference(rows[..., :width]) for width in WIDTHS]


@pytest.mark.parametrize("name", CASES)
def test_a_pair_loss_is_the_obvious_one_at_every_width(name: str) -> None:
    assert difference(*compared(name)) < 1e-5


@pytest.mark.parametrize("name", CASES)
def test_depths_together_are_depths_one_by_one(name: str) -> None:
    loss, columns, labels, _ = CASES[name]
    scores = None if labels is None else torch.tensor(labels)
    rows = torch.stack(tensors(batch(3, columns)))
    together = loss(rows, WIDTHS, scores)
    assert together.shape == (3, 3)
    assert difference(together, [loss(one, WIDTHS, scores).tolist() for one in rows]) < 1e-6


def test_pairs_without_order_are_refused() -> None:
    rows = tensors(batch(1, 2))[0]
    with pytest.raises(DataError, match="use InfoNCE"):
        CoSENT()(rows, [12])


@pytest.mark.parametrize("temperature", [0, -1, math.nan])
def test_a_temperature_must_be_above_zero(temperature: float) -> None:
    with pytest.raises(DataError, match="temperature must be above 0"):
        InfoNCE(temperature)


def golden_losses() -> Iterator[tuple[str, float, float]]:
    """Our number and that of angle-emb for each of its single losses."""
    graded, binary = golden_labels("graded"), golden_labels("binary")
    for name, width in {"full": 16, "slim": 8}.items():
        rows = golden_states(4)[:, :width]
        (left, right), triples = golden_columns(rows, "A"), golden_columns(rows, "C")
        cosines = losses.cosine_pairs(left, right)
        ours = {
            "cosine_graded_tau20": losses.cosent(cosines, graded),
            "cosine_binary_tau20": losses.cosent(cosines, binary),
            "angle_sum_graded_tau20": losses.angle(left, right, graded),
            "angle_sum_graded_tau1": losses.angle(left, right, graded, scale=1.0),
            "angle_mean_graded_tau20": losses.angle(left, right, graded, scale=20.0 / width),
            "in_batch_negative_binary_tau20": losses.labelled_infonce(left, right, binary),
            "in_batch_negative_graded_tau20": losses.labelled_infonce(left, right, graded),
            "contrastive_pairs_tau20": losses.infonce(left, right),
            "contrastive_triples_tau20": losses.infonce(*triples),
            "contrastive_triples_without_negatives_tau20": losses.infonce(*triples[:2]),
        }
        for key, golden in GOLDEN["losses"][name].items():
            yield f"{name} {key}", ours[key].item(), golden


def golden_mixes() -> Iterator[tuple[str, float, float]]:
    """The same for the whole loss, by weights and format."""
    for weights, found in GOLDEN["angle_loss"].items():
        for name, golden in found.items():
            form, _, labels = name.partition("_")
            columns = golden_columns(golden_states(4), form)
            scores = golden_labels(labels) if labels else None
            yield f"{weights} {name}", golden_angle(weights)(columns, [16], scores).item(), golden


def test_the_rule_of_the_golden_numbers_is_understood() -> None:
    check = GOLDEN["inputs"]["check"]
    assert golden_states(0)[0, 0].item() == pytest.approx(check["X[0][0][0]"], rel=1e-9)
    assert golden_states(4)[5, 15].item() == pytest.approx(check["X[4][5][15]"], rel=1e-9)


def test_the_losses_are_those_of_angle_emb() -> None:
    for name, ours, golden in (*golden_losses(), *golden_mixes()):
        assert ours == pytest.approx(golden, rel=1e-5), name
