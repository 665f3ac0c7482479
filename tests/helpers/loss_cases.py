"""Losses and pair losses, each computed by us and by its slow reference: pairs of (ours, expected) by name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import references as slow
import torch
from references import batch, tensors

from demitasse.objectives import losses
from demitasse.objectives.pair_losses import AnglE, CoSENT, InfoNCE, PairLoss

Compared = tuple[object, object]
GRADED = [0.2, 1.0, 0.2, 0.0, 0.7]
YES_OR_NO = [1.0, 0.0, 1.0, 1.0, 0.0]


def split(columns: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Anchors, positives, and all negatives in one column."""
    return columns[0], columns[1], columns[2:].flatten(0, 1) if len(columns) > 2 else None


def infonce(columns: int, temperature: float = 0.05, *, both_ways: bool = False) -> Compared:
    (vectors,) = batch(1, columns)
    got = losses.infonce(*split(tensors([vectors])[0]), temperature=temperature, both_ways=both_ways)
    return got, slow.infonce(vectors, temperature, both_ways=both_ways)


def scored(name: str, dims: int = 12) -> Compared:
    (vectors,) = batch(1, 2, dims=dims)
    left, right = tensors([vectors])[0]
    if name == "cosent":
        return losses.cosent(losses.cosine_pairs(left, right), torch.tensor(GRADED)), slow.cosent(vectors, GRADED)
    if name == "angle":
        return losses.angle(left, right, torch.tensor(GRADED)), slow.angle(vectors, GRADED)
    return losses.labelled_infonce(left, right, torch.tensor(YES_OR_NO)), slow.labelled_infonce(vectors, YES_OR_NO)


def divergence(temperature: float) -> Compared:
    teacher, student = (columns[0] for columns in batch(2, 1))
    got = losses.feature_divergence(*tensors([teacher, student]), temperature)
    return got, slow.feature_divergence(teacher, student, temperature)


def similarity(*, own: bool) -> Compared:
    teacher, student = (columns[0] for columns in batch(2, 1))
    other = student if own else teacher
    ours, others, theirs = tensors([student, other, teacher])
    got = losses.similarity_divergence(ours, others, losses.similarity_targets(theirs, 0.1), 0.1)
    return got, slow.similarity_divergence(student, other, teacher, 0.1)


def nested() -> Compared:
    left, right = (columns[0] for columns in batch(2, 1))
    widths = list(range(1, 13))
    got = losses.nested_cosines(*tensors([left, right]), widths)
    direct = [[[slow.cosine(u[:w], v[:w]) for v in right] for u in left] for w in widths]
    return got, np.array(direct)


LOSSES: dict[str, Callable[[], Compared]] = {
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

WIDTHS = [4, 7, 12]
ALL_TERMS = AnglE(cosine_weight=0.7, in_batch_weight=1.5, contrast_weight=2.0, angle_weight=0.4)
ALL_WEIGHTS = (0.7, 1.5, 2.0, 0.4)

# A loss, its number of columns, its labels, and its reference as a function of columns.
PAIR_LOSSES: dict[str, tuple[PairLoss, int, list[float] | None, Callable[[np.ndarray], float]]] = {
    "InfoNCE": (InfoNCE(), 2, None, slow.infonce),
    "InfoNCE, negatives": (InfoNCE(0.1), 4, None, lambda columns: slow.infonce(columns, 0.1)),
    "InfoNCE, both ways": (InfoNCE(both_ways=True), 3, None, lambda columns: slow.infonce(columns, both_ways=True)),
    "InfoNCE, scores": (InfoNCE(0.1), 2, GRADED, lambda columns: slow.cosent(columns, GRADED, 10.0)),
    "CoSENT": (CoSENT(), 2, GRADED, lambda columns: slow.cosent(columns, GRADED)),
    "CoSENT, triples": (CoSENT(5.0), 3, None, lambda columns: slow.cosent(columns, None, 5.0)),
    "AnglE, scores": (ALL_TERMS, 2, YES_OR_NO, lambda columns: slow.angle_mix(columns, YES_OR_NO, ALL_WEIGHTS)),
    "AnglE, graded": (ALL_TERMS, 2, GRADED, lambda columns: slow.angle_mix(columns, GRADED, ALL_WEIGHTS)),
    "AnglE, pairs": (ALL_TERMS, 2, None, lambda columns: slow.angle_mix(columns, None, ALL_WEIGHTS)),
    "AnglE, triples": (ALL_TERMS, 3, None, lambda columns: slow.angle_mix(columns, None, ALL_WEIGHTS)),
    "AnglE, defaults": (AnglE(), 3, None, lambda columns: slow.angle_mix(columns, None, (0, 1, 1, 0.02))),
}


def pair_loss(name: str) -> Compared:
    """A pair loss at three widths, and its reference."""
    loss, columns, labels, reference = PAIR_LOSSES[name]
    (vectors,) = batch(1, columns)
    scores = None if labels is None else torch.tensor(labels)
    return loss(tensors([vectors])[0], WIDTHS, scores), [reference(vectors[..., :width]) for width in WIDTHS]
