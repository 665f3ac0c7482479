"""Objectives and compressions, each computed by us and by its slow reference: pairs of (ours, expected) by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any

import numpy as np
import references as slow
import torch
from references import batch, flat, tensors

from demitasse.cut import Cut
from demitasse.objectives.aligned import Aligned
from demitasse.objectives.compression import Principal, Published, published_target
from demitasse.objectives.elastic import Elastic
from demitasse.objectives.pair_losses import InfoNCE
from demitasse.objectives.protocol import Objective, Step
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

Compared = tuple[object, object]


def batches_of_states(count: int) -> list[np.ndarray]:
    """The vectors of `count` batches."""
    return [flat(columns) for columns in batch(count, 3, texts=8)]


def published(temperature: float) -> Compared:
    # Short vectors: long ones have singular values so alike that float32 cannot tell their axes apart.
    states = np.float32(0.3 * batches_of_states(1)[0]).astype(np.float64)
    torch.manual_seed(3)
    got = Published(temperature)(tensors([states])[0], 5, {}, "")
    torch.manual_seed(3)
    return got, slow.published(states, 5, temperature)


def principal(count: int, momentum: float = 0.95, temperature: float = 1.0) -> Compared:
    batches, memory = batches_of_states(count), dict[str, torch.Tensor]()
    got = [Principal(momentum, temperature, 1.0)(states, 5, memory, "depth 1") for states in tensors(batches)]
    return got[-1], slow.principal(batches, 5, momentum, temperature)


COMPRESSIONS: dict[str, Callable[[], Compared]] = {
    "Published": lambda: published(1.0),
    "Published, cold": lambda: published(0.5),
    "Published, without KL": lambda: published(0.0),
    "Principal": lambda: principal(1),
    "Principal, third batch": lambda: principal(3),
    "Principal, quick and hot": lambda: principal(2, 0.3, 2.0),
}


DEPTHS, DIMS = 5, 20


def triples() -> list[np.ndarray]:
    """Anchors, positives and negatives at every depth."""
    return batch(DEPTHS, 3, dims=DIMS)


def find_the_positive(columns: torch.Tensor, widths: Sequence[int]) -> torch.Tensor:
    """InfoNCE as an objective is given it."""
    return InfoNCE()(columns, widths)


def value(objective: Objective, seed: int = 0) -> torch.Tensor:
    """The objective on `triples`; `seed` is for its own draws and for those of the SVD."""
    torch.manual_seed(seed)
    return objective(tensors(triples()), find_the_positive, Step(Random(seed)))


def matryoshka(weights: tuple[float, ...] | None, per_step: int, seed: int = 0) -> Compared:
    dims = (6, 20, 12)
    weight = dict(zip(dims, weights or (1.0, 1.0, 1.0), strict=True))
    drawn = draw_widths(Random(seed), per_step)
    expected = slow.matryoshka(triples()[-1], slow.infonce, {width: weight[width] for width in drawn})
    return value(Matryoshka(dims, weights, per_step), seed), expected


def draw_widths(random: Random, per_step: int) -> list[int]:
    """Some of 20, 12 and 6, in the order in which sentence-transformers draws."""
    widths = [20, 12, 6]
    return [widths[index] for index in random.sample(range(3), per_step)] if 0 < per_step < 3 else widths


def two_dmse(weighting: str, seed: int, *, detach: bool = False) -> Compared:
    random = Random(seed)
    drawn = random.randint(1, 3), random.choice([8, 16])
    scale = 1 / drawn[0] if weighting == "inverse" else 1.0
    expected = slow.two_dmse(triples(), slow.infonce, drawn, 0.7, scale)
    return value(TwoDMSE(0.7, weighting, detach), seed), expected


def published_alignment(states: np.ndarray, dims: int, temperature: float = 1.0) -> float:
    """`Published` with our own target, which has its own cases: for long vectors float32 cannot compute it exactly."""
    target = published_target(tensors([states])[0], dims)
    return slow.alignment(states[:, :dims], target.double().numpy(), temperature)


def espresso(compress: Published | Principal | None, *, express: bool = True) -> Compared:
    reference = None
    if isinstance(compress, Published):
        reference = published_alignment
    elif compress is not None:

        def reference(states: np.ndarray, dims: int) -> float:
            return slow.principal([states], dims)

    got = value(Espresso(8, compress, express))
    torch.manual_seed(0)
    return got, slow.espresso(triples(), slow.infonce, 8, reference, express=express)


def released(temperature: float, *, compress: bool = True, dims: int = 8) -> Compared:
    def reference(states: np.ndarray, dims: int) -> float:
        return published_alignment(states, dims, temperature)

    got = value(EspressoReleased(dims, temperature, compress))
    torch.manual_seed(0)
    return got, slow.espresso_released(triples(), slow.infonce, dims, reference if compress else None)


def adaptive(weighting: str, per_step: int, seed: int = 0, *, kl_temperature: float = 0.3) -> Compared:
    embeddings = triples()
    depths = Random(seed).sample(range(4), per_step) if 0 < per_step < 4 else [0, 1, 2, 3]
    losses = {depth: slow.infonce(embeddings[depth]) for depth in (4, *depths)}
    kl = kl_temperature or 1.0  # a temperature of 0 means no KL, which is a weight of 0 here
    expected = slow.adaptive(embeddings, losses, WEIGHTINGS[weighting], (1.5, 0.5, 2.0 if kl_temperature else 0.0, kl))
    objective = AdaptiveLayer(None, per_step, 1.5, 0.5, 2.0, kl_temperature, weighting)
    return value(objective, seed), expected


def matryoshka_2d(layers: int, dims: int, seed: int, weighting: str = "uniform") -> Compared:
    embeddings, random, weight = triples(), Random(seed), {6: 0.5, 20: 1.0, 12: 2.0}
    losses = {}

    def at(depth: int) -> None:
        widths = {width: weight[width] for width in draw_widths(random, dims)}
        losses[depth] = slow.matryoshka(embeddings[depth], slow.infonce, widths)

    at(4)
    for depth in random.sample(range(4), layers) if 0 < layers < 4 else range(4):
        at(depth)
    objective = Matryoshka2d((6, 20, 12), (0.5, 1.0, 2.0), layers, dims, 0.8, weighting)
    return value(objective, seed), slow.adaptive(embeddings, losses, WEIGHTINGS[weighting], (1.0, 1.0, 0.8, 0.3))


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
        lambda: starbucks(None, [(2, 20), (4, 20)]),  # 20 dims cannot be halved to 32
        lambda: starbucks((Cut(1, 4), Cut(3, 8)), [(1, 4), (3, 8), (4, 20)]),
    ],
}


WIDTHS = (4, 12)
TEXTS = 3 * 5


def elastic_inputs() -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Embeddings at four depths, the vectors of a wider teacher, and those of the tuned model."""
    return batch(4, 3), batch(1, 3, dims=17, seed=1)[0], batch(1, 3, seed=2)[0]


def elastic(kept: Sequence[int] = range(TEXTS), **weights: float) -> Compared:
    """`Elastic` with some weights; `kept` are the texts whose similarities are compared."""
    embeddings, teacher, anchor = elastic_inputs()
    step = Step(Random(7), teacher=tensors([teacher])[0], anchor=tensors([anchor])[0])
    objective = Elastic(WIDTHS, temperature=0.05, **{"anchor": 5.0, "keep": 0.0, **weights})
    got = objective(tensors(embeddings), find_the_positive, step)
    expected = slow.elastic(embeddings, WIDTHS, teacher, anchor, kept, distil=objective.distil, hold=objective.hold)
    pair_losses = [slow.infonce(columns[..., :width]) for columns in embeddings for width in WIDTHS]
    last = pair_losses[-len(WIDTHS) :]
    expected += objective.contrast * sum(pair_losses) / len(pair_losses) + objective.keep * sum(last) / len(last)
    return got, expected


def aligned(rows: int = 5, **options: Any) -> Compared:
    """`Aligned` with some options; the first `rows` of each column are compared."""
    embeddings, teacher, anchor = elastic_inputs()
    step = Step(teacher=tensors([teacher])[0], anchor=tensors([anchor])[0])
    objective = Aligned(dims=WIDTHS, **{"anchor": 5.0, **options})
    got = objective(tensors(embeddings), find_the_positive, step)
    kept = [column * 5 + row for column in range(3) for row in range(rows)]
    expected = slow.elastic(embeddings, WIDTHS, teacher, anchor, kept, distil=objective.distil, hold=1.0)
    pair_losses = [slow.infonce(columns[..., :width]) for columns in embeddings for width in WIDTHS]
    return got, expected + objective.contrast * sum(pair_losses) / len(pair_losses)


ALIGNED: dict[str, Callable[[], Compared]] = {
    "defaults": aligned,
    "contrast": partial(aligned, contrast=0.3),
    "no distillation": partial(aligned, distil=0.0),
}
ELASTIC: dict[str, Callable[[], Compared]] = {
    "defaults": elastic,
    "contrast": partial(elastic, contrast=0.3),
    "keep": partial(elastic, keep=0.7),
    "hold": partial(elastic, hold=4.0),
    "no distillation": partial(elastic, distil=0.0),
}
