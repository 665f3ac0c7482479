from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics

from demitasse import DataError
from demitasse.evaluation import bootstrap
from demitasse.evaluation.bootstrap import interval, paired_p, resampled, resampled_many
from demitasse.evaluation.metrics import steps_down
from demitasse.evaluation.tasks import PairTask, Scores, SearchTask


def pair_task(gold: np.ndarray, *, binary: bool = False, sha256: str = "") -> PairTask:
    texts = tuple(map(str, range(len(gold))))
    return PairTask("pairs", "pairs", texts, texts, gold, binary=binary, sha256=sha256)


def search_task(queries: int) -> SearchTask:
    texts = tuple(map(str, range(queries)))
    return SearchTask("search", "search", texts, texts, ({0: 1.0},) * queries, (None,) * queries)


def made(units: np.ndarray) -> Scores:
    return Scores(0.0, {}, units)


def drawn(task: PairTask | SearchTask, rows: int, resamples: int, seed: int = 0) -> list[np.ndarray]:
    """The pairs or queries of each draw, repeated as often as they were drawn."""
    counts = np.concatenate([*bootstrap._draws(task.sha256, rows, resamples, seed)])
    return [np.repeat(np.arange(rows), draw.astype(int)) for draw in counts]


def noisy(gold: np.ndarray, noise: float, seed: int) -> np.ndarray:
    return (gold + np.random.default_rng(seed).normal(0, noise, len(gold))).astype(np.float32)


def test_draws_have_the_size_of_the_task_and_favour_nothing() -> None:
    draws = drawn(search_task(50), 50, 2000)
    assert {len(draw) for draw in draws} == {50}
    often = np.bincount(np.concatenate(draws), minlength=50)
    assert stats.chisquare(often).pvalue > 1e-4
    spread = np.var([np.count_nonzero(draw == 7) for draw in draws])
    assert spread == pytest.approx(1, rel=0.15)  # binomial: 50 draws with a chance of 1 in 50


@pytest.mark.parametrize("block", [1, 7, 100])
def test_ndcg_is_the_mean_of_each_draw(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    task, values = search_task(40), np.random.default_rng(0).uniform(size=40)
    expected = [100 * values[draw].mean() for draw in drawn(task, 40, 30)]
    monkeypatch.setattr(bootstrap, "_BLOCK", block)
    np.testing.assert_allclose(resampled(task, made(values), 30), expected)


@given(st.integers(0, 2**32), st.integers(2, 40), st.integers(1, 12))
def test_average_precision_is_that_of_each_draw(seed: int, rows: int, values: int) -> None:
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 2, rows).astype(float)
    cosines = generator.integers(0, values, rows) / 8  # few values, so that many are tied
    task = pair_task(labels, binary=True)
    expected = [
        100 * metrics.average_precision_score(labels[draw], cosines[draw]) if labels[draw].any() else 0.0
        for draw in drawn(task, rows, 5)
    ]
    np.testing.assert_allclose(resampled(task, made(cosines), 5), expected, atol=1e-9)


@given(st.integers(0, 2**32), st.integers(2, 40), st.integers(1, 12))
def test_spearman_is_that_of_each_draw(seed: int, rows: int, values: int) -> None:
    generator = np.random.default_rng(seed)
    gold, cosines = (generator.integers(0, values, rows).astype(float) for _ in range(2))
    task = pair_task(gold)
    expected = [
        100 * stats.spearmanr(cosines[draw], gold[draw]).statistic
        if np.ptp(cosines[draw]) and np.ptp(gold[draw])
        else 0.0
        for draw in drawn(task, rows, 5)
    ]
    np.testing.assert_allclose(resampled(task, made(cosines), 5), expected, atol=1e-9)


@pytest.mark.parametrize("decimals", [0, 1, 9])
def test_spearman_of_a_large_task_is_that_of_each_draw(decimals: int) -> None:
    gold = np.round(np.random.default_rng(1).uniform(0, 5, 2000), decimals)
    task, cosines = pair_task(gold), noisy(gold, 1.0, 2)
    expected = [100 * stats.spearmanr(cosines[draw], gold[draw]).statistic for draw in drawn(task, 2000, 20)]
    np.testing.assert_allclose(resampled(task, made(cosines), 20), expected, atol=1e-9)


@pytest.mark.parametrize("binary", [False, True])
def test_the_draws_are_centred_on_the_score(binary: bool) -> None:
    gold = np.random.default_rng(3).integers(0, 2, 400).astype(float)
    task = pair_task(gold, binary=binary)
    left, right = np.ones((400, 1)), noisy(gold, 1.0, 4)[:, None]
    scores = task.score(left, right)
    values = resampled(task, scores, 1000)
    assert values.mean() == pytest.approx(scores.main, abs=values.std() / 5)
    low, high = interval(values)
    assert low < scores.main < high


def test_many_scores_at_once_equal_each_alone() -> None:
    gold = np.round(np.random.default_rng(5).uniform(0, 1, 90))
    several = [made(noisy(gold, noise, seed)) for seed, noise in enumerate((0.1, 0.5, 2.0))]
    for task in (pair_task(gold), pair_task(gold, binary=True), search_task(90)):
        together = resampled_many(task, several, 200, seed=4)
        assert together.shape == (3, 200)
        for row, scores in zip(together, several, strict=True):
            np.testing.assert_allclose(row, resampled(task, scores, 200, seed=4), atol=1e-9)


def test_draws_depend_on_the_content_and_the_seed_alone() -> None:
    gold = np.round(np.random.default_rng(6).uniform(0, 5, 60), 1)
    scores = made(noisy(gold, 1.0, 7))
    first = resampled(pair_task(gold, sha256="content"), scores, 50)
    np.testing.assert_array_equal(first, resampled(pair_task(gold, sha256="content"), scores, 50))
    np.testing.assert_array_equal(first[:20], resampled(pair_task(gold, sha256="content"), scores, 20))
    assert not np.allclose(first, resampled(pair_task(gold, sha256="content"), scores, 50, seed=1))
    assert not np.allclose(first, resampled(pair_task(gold, sha256="other"), scores, 50))


def test_a_paired_difference_is_more_certain_than_either_score() -> None:
    gold = np.round(np.random.default_rng(8).uniform(0, 5, 500), 1)
    task, better = pair_task(gold), noisy(gold, 1.5, 9)
    worse = better + np.random.default_rng(10).normal(0, 0.7, 500)
    first, second = resampled_many(task, [made(better), made(worse)])
    assert (first - second).std() < 0.7 * first.std()
    assert paired_p(first - second) < 0.05
    assert paired_p(first - first) == 1


def test_the_interval_covers_the_truth_as_often_as_it_claims() -> None:
    """About 95% of 300 samples have the known correlation of their population within their interval."""
    generator, covered = np.random.default_rng(11), 0
    truth = 100 * 6 / np.pi * np.arcsin(0.7 / 2)  # Spearman of two normal variables that correlate by 0.7
    for number in range(300):
        gold, noise = generator.normal(size=(2, 200))
        scores = made(0.7 * gold + np.sqrt(1 - 0.7**2) * noise)
        low, high = interval(resampled(pair_task(gold, sha256=str(number)), scores, 300))
        covered += low <= truth <= high
    assert 0.91 <= covered / 300 <= 0.98


def test_the_p_value_is_two_sided_and_never_zero() -> None:
    differences = np.array([-1.0] * 3 + [2.0] * 96)
    assert paired_p(differences) == paired_p(-differences) == 2 * 4 / 100
    assert paired_p(np.ones(999)) == 0.002
    assert paired_p(np.array([-1.0, 1.0])) == 1


def test_p_is_small_by_chance_as_often_as_it_claims() -> None:
    """Of two encoders that are equally good, p falls below 0.1 in about a tenth of the samples."""
    generator, small = np.random.default_rng(12), 0
    for number in range(300):
        gold = generator.normal(size=150)
        pair = [made(gold + generator.normal(size=150)) for _ in range(2)]
        first, second = resampled_many(pair_task(gold, sha256=str(number)), pair, 300)
        small += paired_p(first - second) < 0.1
    assert 0.05 <= small / 300 <= 0.16


def test_scores_are_ranked_once_and_not_for_each_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is what makes intervals affordable for a grid of cuts."""
    gold = np.round(np.random.default_rng(13).uniform(0, 5, 300), 1)
    several = [made(noisy(gold, 1.0, seed)) for seed in range(5)]
    ranked = 0

    def counted(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        nonlocal ranked
        ranked += 1
        return steps_down(values)

    monkeypatch.setattr(bootstrap, "steps_down", counted)
    resamples, blocks = 320, 10
    monkeypatch.setattr(bootstrap, "_BLOCK", resamples // blocks)
    resampled_many(pair_task(gold), several, resamples)
    assert ranked == len(several) + blocks  # each score once, and the gold scores once per block of draws


def test_at_least_one_draw_is_needed() -> None:
    with pytest.raises(DataError, match="resamples is 0; give a whole number of at least 1"):
        resampled(search_task(2), made(np.ones(2)), 0)
