from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
import torch
from angle_emb import GoldenTargets, golden_ese
from objective_cases import DIMS, OBJECTIVES, find_the_positive, triples, value
from references import batch, difference, tensors

from demitasse.cut import Cut
from demitasse.errors import CutError, DataError
from demitasse.objectives import compression as compress_module
from demitasse.objectives.compression import Principal
from demitasse.objectives.pair_losses import InfoNCE
from demitasse.objectives.protocol import NestedLoss, Objective, Step
from demitasse.objectives.published import (
    AdaptiveLayer,
    Espresso,
    EspressoReleased,
    Matryoshka,
    Matryoshka2d,
    Starbucks,
    TwoDMSE,
)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_an_objective_equals_its_reference(name: str) -> None:
    for index, case in enumerate(OBJECTIVES[name]):
        assert difference(*case()) < 1e-5, index


def test_the_released_espresso_equals_that_of_angle_emb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compress_module, "published_target", GoldenTargets())
    for name, ours, golden in golden_ese():
        loss, states = ours()
        assert loss.item() == pytest.approx(golden["loss"], rel=1e-5), name
        loss.backward()
        grads = [torch.zeros(6, 16) if state.grad is None else state.grad.abs() for state in states]
        assert difference([grad[:, :8].sum() for grad in grads], golden["gradient_first_8_dims"]) < 1e-5, name
        assert difference([grad[:, 8:].sum() for grad in grads], golden["gradient_other_dims"]) < 1e-5, name


def gradients(objective: Objective, loss: NestedLoss = find_the_positive, seed: int = 0) -> list[torch.Tensor]:
    """The size of the gradient of each dim at each depth."""
    embeddings = tensors(triples(), grad=True)
    objective(embeddings, loss, Step(Random(seed))).backward()
    return [torch.zeros(DIMS) if part.grad is None else part.grad.abs().sum((0, 1)) for part in embeddings]


def zero_loss(columns: torch.Tensor, widths: Sequence[int]) -> torch.Tensor:
    """A pair loss of zero, to isolate the rest of an objective."""
    return 0.0 * InfoNCE()(columns, widths)


def test_matryoshka_trains_the_last_layer_only() -> None:
    *lower, last = gradients(Matryoshka((4, 8)))
    assert not any(part.any() for part in lower)
    assert last[:8].all()
    assert not last[8:].any()


def test_the_kl_of_adaptive_layers_does_not_move_the_last() -> None:
    *lower, last = gradients(AdaptiveLayer(layers_per_step=-1), zero_loss)
    assert all(part.all() for part in lower)
    assert not last.any()


@pytest.mark.parametrize("detach", [False, True])
def test_the_kl_of_two_dmse_and_starbucks_moves_the_last_unless_detached(detach: bool) -> None:
    drawn = Random(0).randint(1, 3)
    pulled = gradients(TwoDMSE(detach=detach), zero_loss)
    assert [depth for depth in range(4) if pulled[depth].any()] == [drawn]
    assert pulled[-1].any() != detach
    *_, lower, last = gradients(Starbucks((Cut(3, 8),), detach=detach), zero_loss)
    assert lower[:8].all()
    assert not lower[8:].any()
    assert last.any() != detach


def test_espresso_does_not_train_depth_zero_or_the_other_dims() -> None:
    first, *layers = gradients(Espresso(8, compress=None))
    assert not first.any()
    assert all(part[:8].all() and not part[8:].any() for part in layers)
    assert not gradients(Espresso(8))[0].any()


def test_the_released_espresso_trains_depth_zero_and_skips_one_layer() -> None:
    *lower, skipped, last = gradients(EspressoReleased(8))
    assert all(part[:8].all() and not part[8:].any() for part in lower)
    assert not skipped.any()
    assert last.all()


def test_espresso_has_a_memory_for_each_depth() -> None:
    step = Step()
    Espresso(8, Principal())(tensors(triples()), find_the_positive, step)
    assert {name.partition("/")[0] for name in step.memory} == {f"depth {depth}" for depth in range(1, 5)}


@pytest.mark.parametrize(
    "objective",
    [Matryoshka((8, 40)), Espresso(40), EspressoReleased(40), Matryoshka2d((40,)), Starbucks((Cut(2, 40),))],
)
def test_more_dims_than_the_model_has_are_refused(objective: Objective) -> None:
    with pytest.raises(CutError):
        value(objective)


def test_a_model_without_inner_layers_is_refused() -> None:
    with pytest.raises(CutError, match="use Matryoshka"):
        TwoDMSE()(tensors(batch(2, 2)), find_the_positive, Step())


def test_unknown_weightings_and_mismatched_weights_are_refused() -> None:
    for make in (lambda: TwoDMSE(weighting="loud"), lambda: AdaptiveLayer(weighting="loud")):
        with pytest.raises(DataError, match="weighting must be one of uniform, "):
            make()
    with pytest.raises(DataError, match="give one weight per width"):
        Matryoshka((8, 16), (1.0,))
