from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random

import numpy as np
import pytest
import references as slow
import torch
from references import GOLDEN, batch, difference, golden_angle, golden_columns, golden_labels, golden_states, tensors

from demitasse.cut import Cut
from demitasse.errors import CutError, DataError
from demitasse.objectives import compression as compress_module
from demitasse.objectives.compression import Principal, Published
from demitasse.objectives.pair_losses import InfoNCE
from demitasse.objectives.protocol import NestedLoss, Objective, Step
from demitasse.objectives.published import (
    WEIGHTINGS,
    AdaptiveLayer,
    Espresso,
    EspressoReleased,
    Matryoshka,
    Matryoshka2d,
    Starbucks,
    TwoDMSE,
)

DEPTHS, DIMS = 5, 20
Compared = tuple[object, object]


def triples() -> list[np.ndarray]:
    """Columns at every depth."""
    return batch(DEPTHS, 3, dims=DIMS)


def find_the_positive(rows: torch.Tensor, widths: Sequence[int]) -> torch.Tensor:
    return InfoNCE()(rows, widths)


def value(objective: Objective, seed: int = 0) -> torch.Tensor:
    """The objective on `triples`, its draws and the SVD's made with `seed`."""
    torch.manual_seed(seed)
    return objective(tensors(triples()), find_the_positive, Step(Random(seed)))


def matryoshka(weights: tuple[float, ...] | None, per_step: int, seed: int = 0) -> Compared:
    dims = (6, 20, 12)
    weight = dict(zip(dims, weights or (1.0, 1.0, 1.0), strict=True))
    drawn = draw_widths(Random(seed), per_step)
    expected = slow.matryoshka(triples()[-1], slow.infonce, {width: weight[width] for width in drawn})
    return value(Matryoshka(dims, weights, per_step), seed), expected


def draw_widths(random: Random, per_step: int) -> list[int]:
    """Of 20, 12 and 6, as sentence-transformers draws them."""
    widths = [20, 12, 6]
    return [widths[place] for place in random.sample(range(3), per_step)] if 0 < per_step < 3 else widths


def two_dmse(weighting: str, seed: int, *, detach: bool = False) -> Compared:
    random = Random(seed)
    drawn = random.randint(1, 3), random.choice([8, 16])
    scale = 1 / drawn[0] if weighting == "inverse" else 1.0
    expected = slow.two_dmse(triples(), slow.infonce, drawn, 0.7, scale)
    return value(TwoDMSE(0.7, weighting, detach), seed), expected


def published(states: np.ndarray, dims: int, temperature: float = 1.0) -> float:
    """`Published` to our own target, which test_compress tests: of long vectors float32 finds no exact one."""
    target = compress_module.published_target(tensors([states])[0], dims)
    return slow.alignment(states[:, :dims], target.double().numpy(), temperature)


def espresso(compress: Published | Principal | None, *, express: bool = True) -> Compared:
    reference = None
    if isinstance(compress, Published):
        reference = published
    elif compress is not None:

        def reference(states: np.ndarray, dims: int) -> float:
            return slow.principal([states], dims)

    got = value(Espresso(8, compress, express))
    torch.manual_seed(0)
    return got, slow.espresso(triples(), slow.infonce, 8, reference, express=express)


def released(temperature: float, *, compress: bool = True, dims: int = 8) -> Compared:
    def reference(states: np.ndarray, dims: int) -> float:
        return published(states, dims, temperature)

    got = value(EspressoReleased(dims, temperature, compress))
    torch.manual_seed(0)
    return got, slow.espresso_released(triples(), slow.infonce, dims, reference if compress else None)


def adaptive(weighting: str, per_step: int, seed: int = 0, *, kl_temperature: float = 0.3) -> Compared:
    rows = triples()
    depths = Random(seed).sample(range(4), per_step) if 0 < per_step < 4 else [0, 1, 2, 3]
    losses = {depth: slow.infonce(rows[depth]) for depth in (4, *depths)}
    kl = kl_temperature or 1.0  # without a KL its weight is 0 instead
    expected = slow.adaptive(rows, losses, WEIGHTINGS[weighting], (1.5, 0.5, 2.0 if kl_temperature else 0.0, kl))
    objective = AdaptiveLayer(None, per_step, 1.5, 0.5, 2.0, kl_temperature, weighting)
    return value(objective, seed), expected


def matryoshka_2d(layers: int, dims: int, seed: int, weighting: str = "uniform") -> Compared:
    rows, random, weight = triples(), Random(seed), {6: 0.5, 20: 1.0, 12: 2.0}
    losses = {}

    def at(depth: int) -> None:
        widths = {width: weight[width] for width in draw_widths(random, dims)}
        losses[depth] = slow.matryoshka(rows[depth], slow.infonce, widths)

    at(4)
    for depth in random.sample(range(4), layers) if 0 < layers < 4 else range(4):
        at(depth)
    objective = Matryoshka2d((6, 20, 12), (0.5, 1.0, 2.0), layers, dims, 0.8, weighting)
    return value(objective, seed), slow.adaptive(rows, losses, WEIGHTINGS[weighting], (1.0, 1.0, 0.8, 0.3))


def starbucks(sizes: tuple[Cut, ...] | None, expected: list[tuple[int, int]]) -> Compared:
    return value(Starbucks(sizes)), slow.starbucks(triples(), slow.infonce, expected)


OBJECTIVES: dict[str, list[Callable[[], Compared]]] = {
    "Matryoshka": [
        lambda: matryoshka(None, -1),
        lambda: matryoshka((0.5, 1.0, 2.0), -1),
        *[lambda seed=seed: matryoshka((0.5, 1.0, 2.0), 2, seed) for seed in range(4)],
        lambda: (value(Matryoshka()), slow.infonce(triples()[-1])),
    ],
    "TwoDMSE": [
        *[lambda seed=seed: two_dmse("uniform", seed) for seed in range(3)],
        *[lambda seed=seed: two_dmse("inverse", seed, detach=True) for seed in range(3)],
    ],
    "Espresso": [
        lambda: espresso(None),
        lambda: espresso(Published()),
        lambda: espresso(Principal(weight=1.0)),
        lambda: espresso(Published(), express=False),
    ],
    "EspressoReleased": [
        lambda: released(1.0),
        lambda: released(0.5),
        lambda: released(0.0),
        lambda: released(1.0, compress=False),
        lambda: released(1.0, compress=False, dims=DIMS),
    ],
    "AdaptiveLayer": [
        *[lambda name=name: adaptive(name, -1) for name in WEIGHTINGS],
        *[lambda seed=seed: adaptive("log", 2, seed) for seed in range(3)],
        lambda: adaptive("uniform", 1, kl_temperature=0.0),
    ],
    "Matryoshka2d": [
        *[lambda seed=seed: matryoshka_2d(1, 1, seed) for seed in range(3)],
        lambda: matryoshka_2d(2, 2, 5, "linear"),
        lambda: matryoshka_2d(-1, -1, 0, "log"),
    ],
    "Starbucks": [
        lambda: starbucks(None, [(2, 20), (4, 20)]),  # of 20 dims none is below 32
        lambda: starbucks((Cut(1, 4), Cut(3, 8)), [(1, 4), (3, 8), (4, 20)]),
    ],
}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_an_objective_is_the_obvious_one(name: str) -> None:
    for number, case in enumerate(OBJECTIVES[name]):
        assert difference(*case()) < 1e-5, number


def golden_ese() -> Iterator[tuple[str, Callable[[], tuple[torch.Tensor, list[torch.Tensor]]], dict[str, float]]]:
    """Each ESE case of angle-emb: a call that gives our loss and the states, and what that library gave."""
    for case in GOLDEN["ese"]["cases"]:

        def ours(case: dict[str, object] = case) -> tuple[torch.Tensor, list[torch.Tensor]]:
            states = [golden_states(depth).requires_grad_() for depth in range(5)]
            scores = golden_labels("binary") if case["format"] == "A" else None
            angle = golden_angle("recipe")

            def loss(rows: torch.Tensor, widths: Sequence[int]) -> torch.Tensor:
                return angle(rows, widths, scores)

            objective = EspressoReleased(8, case["temperature"], case["apply_ese_pca"])
            rows = [golden_columns(state, case["format"]) for state in states]
            return objective(rows, loss, Step()), states

        yield f"{case['format']} {case['apply_ese_pca']} {case['temperature']}", ours, case


class GoldenTargets:
    """The targets that angle-emb drew, found by the states they were made of."""

    def __init__(self) -> None:
        self.given = {int(depth): torch.tensor(rows).double() for depth, rows in GOLDEN["ese"]["targets"].items()}

    def __call__(self, states: torch.Tensor, dims: int) -> torch.Tensor:
        """Our rows are column after column, theirs text after text."""
        for depth, target in self.given.items():
            for form in "AC":
                if torch.equal(golden_columns(golden_states(depth), form).flatten(0, 1), states):
                    return golden_columns(target, form).flatten(0, 1)
        raise AssertionError("a target was asked for that angle-emb did not use")


def test_the_released_espresso_is_that_of_angle_emb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compress_module, "published_target", GoldenTargets())
    for name, ours, golden in golden_ese():
        loss, states = ours()
        assert loss.item() == pytest.approx(golden["loss"], rel=1e-5), name
        loss.backward()
        grads = [torch.zeros(6, 16) if state.grad is None else state.grad.abs() for state in states]
        assert difference([grad[:, :8].sum() for grad in grads], golden["gradient_first_8_dims"]) < 1e-5, name
        assert difference([grad[:, 8:].sum() for grad in grads], golden["gradient_other_dims"]) < 1e-5, name


def moved(objective: Objective, loss: NestedLoss = find_the_positive, seed: int = 0) -> list[torch.Tensor]:
    """How strongly each dim of each depth is pulled."""
    rows = tensors(triples(), grad=True)
    objective(rows, loss, Step(Random(seed))).backward()
    return [torch.zeros(DIMS) if part.grad is None else part.grad.abs().sum((0, 1)) for part in rows]


def nothing(rows: torch.Tensor, widths: Sequence[int]) -> torch.Tensor:
    """A pair loss that asks for nothing, to see the rest of an objective."""
    return 0.0 * InfoNCE()(rows, widths)


def test_matryoshka_trains_the_last_layer_only() -> None:
    *lower, last = moved(Matryoshka((4, 8)))
    assert not any(part.any() for part in lower)
    assert last[:8].all()
    assert not last[8:].any()


def test_the_kl_of_adaptive_layers_does_not_move_the_last() -> None:
    *lower, last = moved(AdaptiveLayer(layers_per_step=-1), nothing)
    assert all(part.all() for part in lower)
    assert not last.any()


@pytest.mark.parametrize("detach", [False, True])
def test_the_kl_of_two_dmse_and_starbucks_moves_the_last_unless_detached(detach: bool) -> None:
    drawn = Random(0).randint(1, 3)
    pulled = moved(TwoDMSE(detach=detach), nothing)
    assert [depth for depth in range(4) if pulled[depth].any()] == [drawn]
    assert pulled[-1].any() != detach
    *_, lower, last = moved(Starbucks((Cut(3, 8),), detach=detach), nothing)
    assert lower[:8].all()
    assert not lower[8:].any()
    assert last.any() != detach


def test_espresso_leaves_the_embeddings_and_the_other_dims_alone() -> None:
    embeddings, *layers = moved(Espresso(8, compress=None))
    assert not embeddings.any()
    assert all(part[:8].all() and not part[8:].any() for part in layers)
    assert not moved(Espresso(8))[0].any()


def test_the_released_espresso_trains_the_embeddings_and_skips_one_layer() -> None:
    *lower, skipped, last = moved(EspressoReleased(8))
    assert all(part[:8].all() and not part[8:].any() for part in lower)
    assert not skipped.any()
    assert last.all()


def test_espresso_remembers_each_depth_apart() -> None:
    step = Step()
    Espresso(8, Principal())(tensors(triples()), find_the_positive, step)
    assert {name.partition("/")[0] for name in step.memory} == {f"depth {depth}" for depth in range(1, 5)}


@pytest.mark.parametrize(
    "objective",
    [Matryoshka((8, 40)), Espresso(40), EspressoReleased(40), Matryoshka2d((40,)), Starbucks((Cut(2, 40),))],
)
def test_more_dims_than_there_are_cannot_be_trained(objective: Objective) -> None:
    with pytest.raises(CutError):
        value(objective)


def test_a_model_of_one_layer_has_none_to_draw() -> None:
    with pytest.raises(CutError, match="use Matryoshka"):
        TwoDMSE()(tensors(batch(2, 2)), find_the_positive, Step())


def test_unknown_words_and_odd_lists_are_refused() -> None:
    for make in (lambda: TwoDMSE(weighting="loud"), lambda: AdaptiveLayer(weighting="loud")):
        with pytest.raises(DataError, match="use one of"):
            make()
    with pytest.raises(DataError, match="give one for each"):
        Matryoshka((8, 16), (1.0,))
