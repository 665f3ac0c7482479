from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demitasse.encoding.exits import (
    Exit,
    Moments,
    choose_exit,
    mean_cosine,
    narrow,
    neighbour_agreement,
    similarity_agreement,
)
from demitasse.encoding.vectors import unit_length

RANDOM = np.random.default_rng(0)
STATES = RANDOM.normal(size=(500, 12)).astype(np.float32)
MAP = RANDOM.normal(size=(7, 12)).astype(np.float32)
TARGETS = unit_length(unit_length(STATES) @ MAP.T + 0.3)


def slow(states: np.ndarray, targets: np.ndarray, regularizer: float) -> np.ndarray:
    """The formula of the module's docstring, all texts at once, in double precision."""
    x = states / np.linalg.norm(states, axis=1, keepdims=True)
    x = np.concatenate([x, np.ones((len(x), 1))], axis=1).astype(np.float64)
    gram = x.T @ x
    return np.linalg.inv(gram + regularizer * np.trace(gram) / len(gram) * np.eye(len(gram))) @ x.T @ targets


@pytest.mark.parametrize("regularizer", [1e-6, 1e-3, 1e-1])
def test_the_closed_form_is_the_ridge_solution(regularizer: float) -> None:
    moments = Moments(12, 7)
    moments.add(STATES, TARGETS)
    exit_ = moments.solve(regularizer)
    expected = slow(STATES, TARGETS, regularizer)
    np.testing.assert_allclose(exit_.weight, expected[:-1].T, atol=1e-4)
    np.testing.assert_allclose(exit_.bias, expected[-1], atol=1e-4)


@settings(deadline=None)
@given(st.lists(st.integers(1, 200), min_size=1, max_size=6))
def test_moments_do_not_depend_on_the_windows_of_a_stream(sizes: list[int]) -> None:
    whole, parts = Moments(12, 7), Moments(12, 7)
    count = min(sum(sizes), len(STATES))
    whole.add(STATES[:count], TARGETS[:count])
    start = 0
    for size in sizes:
        parts.add(STATES[start : min(start + size, count)], TARGETS[start : min(start + size, count)])
        start = min(start + size, count)
    assert parts.count == whole.count == count
    np.testing.assert_allclose(parts.solve(1e-2).weight, whole.solve(1e-2).weight, atol=1e-4)


def test_lambda_is_chosen_on_held_out_texts() -> None:
    noisy = unit_length(TARGETS + RANDOM.normal(size=TARGETS.shape, scale=0.8))
    few, many = Moments(12, 7), Moments(12, 7)
    few.add(STATES[:15], noisy[:15])
    many.add(STATES[:400], TARGETS[:400])
    _, for_few = choose_exit(few, STATES[400:], TARGETS[400:])
    exact, for_many = choose_exit(many, STATES[400:], TARGETS[400:])
    assert for_few > for_many  # little and noisy data asks for more regularisation
    assert mean_cosine(exact(STATES[400:]), TARGETS[400:]) > 0.97


def test_an_exit_normalises_its_input() -> None:
    exit_ = Exit(MAP, np.ones(7, np.float32))
    np.testing.assert_allclose(exit_(STATES * 9), exit_(STATES), atol=1e-5)


def test_narrow_exits_give_the_first_dims() -> None:
    exit_ = Exit(MAP, RANDOM.normal(size=7).astype(np.float32))
    kept = narrow({0: exit_, 1: exit_, 2: exit_}.items(), depth=1, dims=3)
    assert sorted(kept) == [0, 1]
    np.testing.assert_allclose(kept[1](STATES), exit_(STATES)[:, :3], rtol=1e-6)


def test_a_rotated_exit_gives_rotated_vectors() -> None:
    rotation = np.linalg.qr(RANDOM.normal(size=(7, 7)))[0].astype(np.float32)
    exit_ = Exit(MAP, RANDOM.normal(size=7).astype(np.float32))
    np.testing.assert_allclose(exit_.rotated(rotation)(STATES), exit_(STATES) @ rotation, atol=1e-5)


def test_agreement_ignores_what_cosines_ignore() -> None:
    rotation = np.linalg.qr(RANDOM.normal(size=(7, 7)))[0].astype(np.float32)
    assert similarity_agreement(TARGETS[:50], 3 * TARGETS[:50] @ rotation) == pytest.approx(1)
    assert similarity_agreement(TARGETS[:50], TARGETS[50:100]) < 0.5


def test_neighbours_are_those_that_a_slow_search_finds() -> None:
    ours, theirs = (RANDOM.normal(size=(40, 6)).astype(np.float32) for _ in range(2))

    def nearest(vectors: np.ndarray, own: int) -> set[int]:
        cosines = [float(unit_length(vectors)[own] @ other) for other in unit_length(vectors)]
        return {*sorted((one for one in range(40) if one != own), key=lambda one: -cosines[one])[:10]}

    shared = [len(nearest(ours, own) & nearest(theirs, own)) / 10 for own in range(40)]
    assert neighbour_agreement(ours, theirs) == pytest.approx(np.mean(shared), abs=1e-6)
    assert neighbour_agreement(ours, ours) == 1
    assert neighbour_agreement(ours[:2], theirs[:2]) == 0  # too few to have neighbours to choose from


def test_neighbours_tell_what_a_cosine_does_not() -> None:
    """Vectors that are all alike may be close to their targets and find nothing; turned ones are far and find all."""
    targets = unit_length(RANDOM.normal(size=(300, 16)).astype(np.float32) + 1)
    alike = unit_length(targets.mean(0) + 0.01 * RANDOM.normal(size=targets.shape).astype(np.float32))
    turned = np.roll(targets, 1, axis=1) * np.float32([1, -1] * 8)
    assert mean_cosine(alike, targets) > 0.6 > 0.1 > mean_cosine(turned, targets)
    assert neighbour_agreement(alike, targets) < 0.1 < neighbour_agreement(turned, targets) == 1
