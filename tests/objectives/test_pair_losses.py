from __future__ import annotations

import math

import pytest
import torch
from angle_emb import GOLDEN, golden_losses, golden_mixes, golden_states
from loss_cases import PAIR_LOSSES, WIDTHS, pair_loss
from references import batch, difference, tensors

from demitasse.errors import DataError
from demitasse.objectives.pair_losses import CoSENT, InfoNCE


@pytest.mark.parametrize("name", PAIR_LOSSES)
def test_a_pair_loss_equals_its_reference_at_every_width(name: str) -> None:
    assert difference(*pair_loss(name)) < 1e-5


@pytest.mark.parametrize("name", PAIR_LOSSES)
def test_stacked_depths_give_the_same_as_each_depth_alone(name: str) -> None:
    loss, columns, labels, _ = PAIR_LOSSES[name]
    scores = None if labels is None else torch.tensor(labels)
    embeddings = torch.stack(tensors(batch(3, columns)))
    together = loss(embeddings, WIDTHS, scores)
    assert together.shape == (3, 3)
    assert difference(together, [loss(one, WIDTHS, scores).tolist() for one in embeddings]) < 1e-6


def test_pairs_that_cannot_be_ordered_are_refused() -> None:
    columns = tensors(batch(1, 2))[0]
    with pytest.raises(DataError, match="use InfoNCE"):
        CoSENT()(columns, [12])


@pytest.mark.parametrize("temperature", [0, -1, math.nan])
def test_a_temperature_must_be_above_zero(temperature: float) -> None:
    with pytest.raises(DataError, match=r"temperature must be (above 0|a finite number)"):
        InfoNCE(temperature)


def test_the_golden_inputs_are_rebuilt_exactly() -> None:
    check = GOLDEN["inputs"]["check"]
    assert golden_states(0)[0, 0].item() == pytest.approx(check["X[0][0][0]"], rel=1e-9)
    assert golden_states(4)[5, 15].item() == pytest.approx(check["X[4][5][15]"], rel=1e-9)


def test_the_losses_equal_those_of_angle_emb() -> None:
    for name, ours, golden in (*golden_losses(), *golden_mixes()):
        assert ours == pytest.approx(golden, rel=1e-5), name
