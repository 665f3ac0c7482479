from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from demitasse import DataError
from demitasse.encoding.vectors import unit_length
from demitasse.planning import agreement
from demitasse.planning.agreement import ASKED, LEAST_TEXTS, TEXTS, Reference, usable_texts


def vectors_of(count: int, dims: int = 24, seed: int = 0) -> np.ndarray:
    return unit_length(np.random.default_rng(seed).normal(size=(count, dims)).astype(np.float32))


def noisy(vectors: np.ndarray, noise: float, seed: int = 1) -> np.ndarray:
    return unit_length(vectors + noise * vectors_of(*vectors.shape, seed=seed))


def slow(full: np.ndarray, ours: np.ndarray) -> float:
    """Every pair and every neighbour, the obvious way."""
    count = len(full)
    pairs = [(i, j) for i in range(count) for j in range(i)]
    correlation = spearmanr([full[i] @ full[j] for i, j in pairs], [ours[i] @ ours[j] for i, j in pairs]).statistic
    shared = []
    for text in range(count):
        near = [
            sorted(
                (other for other in range(count) if other != text),
                key=lambda other: -float(vectors[text] @ vectors[other]),
            )
            for vectors in (full, ours)
        ]
        shared.append(len({*near[0][:10]} & {*near[1][:10]}) / 10)
    return 50 * (correlation + float(np.mean(shared)))


@pytest.mark.parametrize("noise", [0.0, 0.3, 2.0])
def test_it_equals_the_obvious_computation(noise: float) -> None:
    full = vectors_of(70)
    ours = noisy(full, noise)
    assert Reference(full).agreement(ours) == pytest.approx(slow(full, ours), abs=0.05)  # rounding may swap two ranks


def test_the_full_model_agrees_fully_with_itself_and_random_vectors_do_not() -> None:
    full = vectors_of(3 * ASKED)
    reference = Reference(full)
    assert reference.agreement(full) == 100
    levels = [reference.agreement(noisy(full, noise)) for noise in (0.1, 0.5, 1, 3)]
    assert levels == sorted(levels, reverse=True)
    assert abs(reference.agreement(vectors_of(len(full), seed=9))) < 5


def test_a_sample_of_pairs_is_close_to_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    full = vectors_of(400)
    ours = noisy(full, 0.4)
    sampled = Reference(full).agreement(ours)
    monkeypatch.setattr(agreement, "PAIRS", 10**6)
    assert sampled == pytest.approx(Reference(full).agreement(ours), abs=1)


def test_no_text_is_its_own_neighbour_or_its_own_pair() -> None:
    reference = Reference(vectors_of(300))
    first, second = reference._pairs
    assert len(first) > 10_000
    assert not (first == second).any()
    for own, near in zip(reference._asked, reference._own_neighbours, strict=True):
        assert int(own) not in near
        assert len(near) == 10


def test_identical_vectors_do_not_agree() -> None:
    full = vectors_of(200)
    assert Reference(full).agreement(np.repeat(full[:1], 200, axis=0)) < 10


def test_texts_are_used_once_and_evenly_spaced() -> None:
    texts = [f"text {number}" for number in range(3 * TEXTS)]
    used = usable_texts([*texts, *texts, "", "  "])
    assert len(used) == len({*used}) == TEXTS
    assert used[:3] == ["text 0", "text 3", "text 6"]
    assert usable_texts(texts[:LEAST_TEXTS]) == texts[:LEAST_TEXTS]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["a", "b"] * 500, "2 different texts are too few .* give at least 50"),
        ([], "0 different texts"),
        (["a", None], "text 1 is None; every text must be a string"),
    ],
)
def test_too_few_texts_are_refused(texts: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        usable_texts(texts)
