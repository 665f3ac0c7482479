from __future__ import annotations

import numpy as np
import pytest
import torch

from demitasse.encoding.exits import Exit, mean_cosine, similarity_agreement
from demitasse.encoding.vectors import unit_length
from demitasse.objectives.losses import cosine_distance, similarity_divergence, similarity_targets
from demitasse.training.refine_exits import learn_order, refine_exits


def quiet(steps: int) -> None:
    """No progress bar."""


def buried(rows: int) -> np.ndarray:
    """Embeddings whose meaning sits in the last dims, behind noise shared by all of them."""
    random = np.random.default_rng(0)
    return unit_length(random.normal(size=(rows, 24)).astype(np.float32) * np.r_[np.full(16, 0.1), np.full(8, 1.0)])


def test_the_learned_order_brings_what_matters_to_the_front() -> None:
    rows = buried(900)
    rotation = learn_order(rows, 0, quiet)
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(24), atol=1e-4)  # a rotation: full cosines stay
    before = similarity_agreement(rows[:200, :12], rows[:200])
    after = similarity_agreement((rows @ rotation)[:200, :12], rows[:200])
    assert before < 0.3
    assert after > 0.9


def test_refining_improves_neighbours_and_keeps_the_space() -> None:
    random = np.random.default_rng(1)
    states = random.normal(size=(900, 20)).astype(np.float32)
    targets = unit_length(np.tanh(2 * states) @ random.normal(size=(20, 16)).astype(np.float32))
    start = Exit(random.normal(size=(16, 20), scale=0.1).astype(np.float32), np.zeros(16, np.float32))
    refined = refine_exits({2: start}, {2: states}, targets, 0, quiet)[2]
    assert similarity_agreement(refined(states), targets) > similarity_agreement(start(states), targets) + 0.2
    assert mean_cosine(refined(states), targets) > mean_cosine(start(states), targets) + 0.2


def test_the_same_seed_gives_the_same_exit() -> None:
    rows = buried(600)
    start = Exit(np.eye(24, dtype=np.float32), np.zeros(24, np.float32))
    target = rows[:, ::-1].copy()
    one, same, other = (
        refine_exits({0: start, 1: start}, {0: rows, 1: rows}, target, seed, quiet) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one[0].weight, same[0].weight)
    np.testing.assert_array_equal(one[0].weight, one[1].weight)  # each depth as if alone
    assert (one[0].weight != other[0].weight).any()
    np.testing.assert_array_equal(learn_order(rows, 0, quiet), learn_order(rows, 0, quiet))


def test_the_divergence_is_the_obvious_cross_entropy() -> None:
    torch.manual_seed(0)
    student, teacher = torch.randn(5, 3), torch.randn(5, 4)
    expected = 0.0
    for i in range(5):
        others = [j for j in range(5) if j != i]
        score = [torch.cosine_similarity(teacher[i], teacher[j], dim=0) / 0.1 for j in others]
        mine = [torch.cosine_similarity(student[i], student[j], dim=0) / 0.1 for j in others]
        p, q = torch.stack(score).softmax(0), torch.stack(mine).log_softmax(0)
        expected -= float((p * q).sum()) / 5
    got = similarity_divergence(student, student, similarity_targets(teacher, 0.1), 0.1)
    assert float(got) == pytest.approx(expected, rel=1e-5)


def test_cosine_distance_is_zero_for_equal_directions() -> None:
    rows = torch.randn(4, 3)
    assert float(cosine_distance(rows, 5 * rows)) == pytest.approx(0, abs=1e-6)
    assert float(cosine_distance(rows, -rows)) == pytest.approx(2, abs=1e-6)
