"""Our losses and objectives beside those of sentence-transformers, on tiny models."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import torch
import zoo
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses as theirs
from torch import nn

from demitasse.encoding.loading import load
from demitasse.objectives.losses import angle
from demitasse.objectives.pair_losses import CoSENT, InfoNCE, PairLoss
from demitasse.objectives.protocol import Objective, Step
from demitasse.objectives.published import AdaptiveLayer, Matryoshka, Matryoshka2d
from demitasse.torch_model.readout import embed
from demitasse.torch_model.torch_encoder import TorchEncoder

DIMS = (6, 32, 16)
WEIGHTS = (0.5, 1.0, 2.0)
SCORES = torch.tensor([0.1, 0.9, 0.1, 0.5, 1.0, 0.0])
PAIRS = len(SCORES)
MakeLoss = Callable[[SentenceTransformer], nn.Module]


def texts(columns: int) -> list[list[str]]:
    """Columns of sentences; counterparts are alike."""
    words = zoo.sentences(PAIRS * (columns + 1), seed=4)
    return [[f"{words[n]} {words[PAIRS * (column + 1) + n]}" for n in range(PAIRS)] for column in range(columns)]


def features(model: SentenceTransformer, columns: int) -> list[dict[str, Any]]:
    return [model.preprocess(column) for column in texts(columns)]


@cache
def opened(folder: Path) -> SentenceTransformer:
    """A model that no test may modify."""
    return SentenceTransformer(str(folder), device="cpu").eval()


def fresh(folder: Path) -> SentenceTransformer:
    return SentenceTransformer(str(folder), device="cpu")


@cache
def embeddings(folder: Path, columns: int) -> list[torch.Tensor]:
    """The columns at every depth, computed by our own encoder without sentence-transformers."""
    encoder = load(folder, device="cpu")
    assert isinstance(encoder, TorchEncoder)
    depths = range(encoder.full.layers + 1)
    columns_of_states = [encoder.states(column, depths) for column in texts(columns)]
    return [torch.stack([embed(encoder.head, states[depth]) for states in columns_of_states]) for depth in depths]


class AngleAlone:
    """The angle term of AnglE, which is all of their `AnglELoss`."""

    def __call__(self, columns: torch.Tensor, widths: Any, scores: Any = None) -> torch.Tensor:
        return torch.stack([angle(columns[0, :, :width], columns[1, :, :width], scores) for width in widths])


def ranking(model: SentenceTransformer) -> nn.Module:
    return theirs.MultipleNegativesRankingLoss(model)


def scored(model: SentenceTransformer) -> nn.Module:
    return theirs.MatryoshkaLoss(model, theirs.CoSENTLoss(model), DIMS)


FULL = Matryoshka((32,))


@dataclass
class Case:
    """Our objective, their loss, and the inputs of both."""

    objective: Objective
    make: MakeLoss
    loss: PairLoss = field(default_factory=InfoNCE)
    columns: int = 3
    labels: torch.Tensor | None = None
    seeds: int = 1  # how many seeds to compare, for objectives that draw at random


def adaptive(weighting: str, count: int) -> Case:
    options = (count, 1.5, 0.5, 2.0, 0.4, weighting)
    ours = AdaptiveLayer(None, *options)
    return Case(ours, lambda model: theirs.AdaptiveLayerLoss(model, ranking(model), *options), seeds=abs(2 * count))


BOTH_WAYS = {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"}
LOG = {"kl_div_weight": 0.7, "layer_weighting": "log"}
CASES: dict[str, Case] = {
    "InfoNCE": Case(FULL, ranking, columns=2),
    "InfoNCE, negatives": Case(FULL, ranking),
    "InfoNCE, three negatives": Case(FULL, ranking, columns=5),
    "InfoNCE, both ways": Case(
        FULL, lambda model: theirs.MultipleNegativesRankingLoss(model, 10.0, **BOTH_WAYS), InfoNCE(0.1, both_ways=True)
    ),
    "CoSENT": Case(FULL, theirs.CoSENTLoss, CoSENT(), 2, SCORES),
    "AnglE, its angle term": Case(FULL, theirs.AnglELoss, AngleAlone(), 2, SCORES),
    "Matryoshka, scores": Case(Matryoshka(DIMS), scored, CoSENT(), 2, SCORES),
    "Matryoshka": Case(
        Matryoshka(DIMS, WEIGHTS), lambda model: theirs.MatryoshkaLoss(model, ranking(model), DIMS, WEIGHTS)
    ),
    "Matryoshka, two widths drawn": Case(
        Matryoshka(DIMS, WEIGHTS, 2),
        lambda model: theirs.MatryoshkaLoss(model, ranking(model), DIMS, WEIGHTS, n_dims_per_step=2),
        seeds=3,
    ),
    **{
        f"AdaptiveLayer, {weighting}, {count}": adaptive(weighting, count)
        for weighting in ("uniform", "log", "linear")
        for count in (1, -1)
    },
    "Matryoshka2d": Case(
        Matryoshka2d(DIMS), lambda model: theirs.Matryoshka2dLoss(model, ranking(model), list(DIMS)), seeds=3
    ),
    "Matryoshka2d, two layers, two widths": Case(
        Matryoshka2d(DIMS, WEIGHTS, 2, 2, 0.7, "log"),
        lambda model: theirs.Matryoshka2dLoss(model, ranking(model), list(DIMS), list(WEIGHTS), 2, 2, **LOG),
        seeds=3,
    ),
}


def their_value(case: Case, folder: Path, seed: int) -> float:
    model = opened(folder)
    random.seed(seed)
    return case.make(model)(features(model, case.columns), case.labels).item()


def our_value(case: Case, folder: Path, seed: int) -> float:
    def loss(columns: torch.Tensor, widths: Sequence[int]) -> torch.Tensor:
        return case.loss(columns, widths, case.labels)

    return case.objective(embeddings(folder, case.columns), loss, Step(Random(seed))).item()


def compared(case: Case, folder: Path) -> list[tuple[float, float]]:
    """Our value and theirs, for each seed."""
    return [(our_value(case, folder, seed), their_value(case, folder, seed)) for seed in range(case.seeds)]
