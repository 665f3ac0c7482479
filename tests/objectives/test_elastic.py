from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random

import numpy as np
import pytest
import references as slow
import torch
from references import batch, difference, tensors

from demitasse.cut import Cut
from demitasse.errors import CutError, DataError
from demitasse.objectives import elastic as elastic_module
from demitasse.objectives.elastic import Elastic
from demitasse.objectives.pair_losses import InfoNCE
from demitasse.objectives.protocol import Step

WIDTHS = (4, 12)
TEXTS = 3 * 5


def given() -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Rows of four depths, a wider teacher's vectors, and the tuned model's own."""
    return batch(4, 3), batch(1, 3, dims=17, seed=1)[0], batch(1, 3, seed=2)[0]


def find_the_positive(rows: torch.Tensor, widths: Sequence[int]) -> torch.Tensor:
    return InfoNCE()(rows, widths)


def compared(kept: Sequence[int] = range(TEXTS), **weights: float) -> tuple[object, object]:
    rows, teacher, anchor = given()
    seen, close = tensors([teacher, anchor])
    step = Step(Random(7), teacher=seen, anchor=close)
    objective = Elastic(WIDTHS, temperature=0.05, **{"anchor": 5.0, "keep": 0.0, **weights})
    got = objective(tensors(rows), find_the_positive, step)
    expected = slow.elastic(rows, WIDTHS, teacher, anchor, kept, distil=objective.distil, hold=objective.hold)
    alone = [slow.infonce(columns[..., :width]) for columns in rows for width in WIDTHS]
    last = alone[-len(WIDTHS) :]
    return got, expected + objective.contrast * sum(alone) / len(alone) + objective.keep * sum(last) / len(last)


WEIGHTS: list[dict[str, float]] = [{}, {"contrast": 0.3}, {"keep": 0.7}, {"hold": 4.0}, {"distil": 0.0}]
ELASTIC: list[Callable[[], tuple[object, object]]] = [partial(compared, **weights) for weights in WEIGHTS]


@pytest.mark.parametrize("case", ELASTIC, ids=map(str, WEIGHTS))
def test_elastic_is_the_obvious_mean(case: Callable[[], tuple[object, object]]) -> None:
    assert difference(*case()) < 1e-5


def test_of_many_texts_some_are_compared_and_all_are_anchored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elastic_module, "MAX_TEXTS", 6)
    assert difference(*compared(kept=sorted(Random(7).sample(range(TEXTS), 6)))) < 1e-5


@pytest.mark.parametrize("scores", [1, 2 * 2 * TEXTS**2, 3 * 2 * TEXTS**2])
def test_depths_taken_in_parts_give_the_same(scores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elastic_module, "MAX_SCORES", scores)
    assert difference(*compared()) < 1e-5


def test_every_depth_and_dim_learns_and_nobody_else() -> None:
    rows, teacher, anchor = given()
    states, (seen, close) = tensors(rows, grad=True), tensors([teacher, anchor], grad=True)
    Elastic(WIDTHS)(states, find_the_positive, Step(teacher=seen, anchor=close)).backward()
    for depth in states:
        assert depth.grad is not None
        assert depth.grad.abs().sum((0, 1)).all()
    assert seen.grad is None
    assert close.grad is None


def test_a_perfect_student_is_only_as_far_as_the_entropy_of_its_teacher() -> None:
    rows, _, _ = given()
    one = tensors(rows)[-1]
    step = Step(teacher=one, anchor=one)
    alike = Elastic((12,), temperature=0.05, keep=0)
    perfect = alike([one, one], find_the_positive, step)
    worse = alike([one, tensors(rows)[0]], find_the_positive, step)
    flat = rows[-1].reshape(TEXTS, -1)
    assert difference(perfect, slow.similarity_divergence(flat, flat, flat, 0.05)) < 1e-5
    assert worse > perfect


def test_all_cuts_are_trained_also_the_embeddings() -> None:
    assert Elastic((4, 8)).cuts(Cut(1, 16)) == [Cut(0, 4), Cut(0, 8), Cut(1, 4), Cut(1, 8)]
    assert Elastic().cuts(Cut(0, 64)) == [Cut(0, 32), Cut(0, 64)]


def test_what_cannot_be_trained_is_refused() -> None:
    rows = tensors(given()[0])
    with pytest.raises(DataError, match="needs a teacher"):
        Elastic()(rows, find_the_positive, Step())
    with pytest.raises(CutError, match="do not fit"):
        Elastic((4, 13))(rows, find_the_positive, Step(teacher=rows[0], anchor=rows[0]))
    with pytest.raises(DataError, match="share of the steps"):
        Elastic(tune=1.0)
