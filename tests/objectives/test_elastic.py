from __future__ import annotations

from random import Random

import pytest
from objective_cases import ELASTIC, TEXTS, WIDTHS, elastic, elastic_inputs, find_the_positive
from references import difference, similarity_divergence, tensors

from demitasse.cut import Cut
from demitasse.errors import CutError, DataError
from demitasse.objectives import elastic as elastic_module
from demitasse.objectives.elastic import Elastic
from demitasse.objectives.protocol import Step


@pytest.mark.parametrize("name", ELASTIC)
def test_elastic_equals_its_reference(name: str) -> None:
    assert difference(*ELASTIC[name]()) < 1e-5


def test_in_large_batches_some_texts_are_compared_and_all_are_anchored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elastic_module, "MAX_TEXTS", 6)
    assert difference(*elastic(kept=sorted(Random(7).sample(range(TEXTS), 6)))) < 1e-5


@pytest.mark.parametrize("scores", [1, 2 * 2 * TEXTS**2, 3 * 2 * TEXTS**2])
def test_comparing_depths_in_groups_gives_the_same(scores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elastic_module, "MAX_SCORES", scores)
    assert difference(*elastic()) < 1e-5


def test_every_depth_and_dim_gets_a_gradient_and_the_teacher_none() -> None:
    embeddings, teacher, anchor = elastic_inputs()
    states, (seen, close) = tensors(embeddings, grad=True), tensors([teacher, anchor], grad=True)
    Elastic(WIDTHS)(states, find_the_positive, Step(teacher=seen, anchor=close)).backward()
    for depth in states:
        assert depth.grad is not None
        assert depth.grad.abs().sum((0, 1)).all()
    assert seen.grad is None
    assert close.grad is None


def test_the_loss_of_a_perfect_student_is_the_entropy_of_its_teacher() -> None:
    embeddings, _, _ = elastic_inputs()
    one = tensors(embeddings)[-1]
    step = Step(teacher=one, anchor=one)
    alike = Elastic((12,), temperature=0.05, keep=0)
    perfect = alike([one, one], find_the_positive, step)
    worse = alike([one, tensors(embeddings)[0]], find_the_positive, step)
    flat = embeddings[-1].reshape(TEXTS, -1)
    assert difference(perfect, similarity_divergence(flat, flat, flat, 0.05)) < 1e-5
    assert worse > perfect


def test_all_cuts_are_trained_including_depth_zero() -> None:
    assert Elastic((4, 8)).cuts(Cut(1, 16)) == [Cut(0, 4), Cut(0, 8), Cut(1, 4), Cut(1, 8)]
    assert Elastic().cuts(Cut(0, 64)) == [Cut(0, 32), Cut(0, 64)]


def test_bad_options_and_a_missing_teacher_are_refused() -> None:
    embeddings = tensors(elastic_inputs()[0])
    with pytest.raises(DataError, match="needs a teacher"):
        Elastic()(embeddings, find_the_positive, Step())
    with pytest.raises(CutError, match="do not fit"):
        Elastic((4, 13))(embeddings, find_the_positive, Step(teacher=embeddings[0], anchor=embeddings[0]))
    with pytest.raises(DataError, match="share of the steps"):
        Elastic(tune=1.0)
