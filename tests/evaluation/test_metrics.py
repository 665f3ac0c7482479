from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics

from demitasse.evaluation.metrics import (
    all_found,
    average_precision,
    ndcg,
    ranks,
    recall,
    reciprocal_rank,
    spearman,
    steps_down,
)

# Few values, so that many are tied.
TABLES = st.lists(st.tuples(st.integers(0, 5), st.sampled_from([0.0, 0.5, 1.5, 4.0, -2.0])), min_size=3, max_size=40)
LABELLED = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 1)), min_size=1, max_size=40)
GRADES = st.lists(st.sampled_from([0.0, 0.0, 1.0, 2.0, 3.0]), min_size=1, max_size=30)


@given(TABLES)
def test_ranks_with_ties_are_those_of_scipy(table: list[tuple[int, float]]) -> None:
    values = np.array([value for _, value in table])
    np.testing.assert_array_equal(ranks(values), stats.rankdata(values) - 1)


@given(TABLES)
def test_spearman_with_ties_is_that_of_scipy(table: list[tuple[int, float]]) -> None:
    ours, theirs = (np.array(side, float) for side in zip(*table, strict=True))
    if len(set(ours)) == 1 or len(set(theirs)) == 1:
        assert spearman(ours, theirs) == 0  # scipy warns and says nan
    else:
        assert spearman(ours, theirs) == pytest.approx(stats.spearmanr(ours, theirs).statistic, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_spearman_of_many_is_that_of_scipy(seed: int) -> None:
    generator = np.random.default_rng(seed)
    ours = generator.normal(size=2000).astype(np.float32)
    theirs = np.round(ours + generator.normal(size=2000), 1)  # scores of people: few values
    assert spearman(ours, theirs) == pytest.approx(stats.spearmanr(ours, theirs).statistic, abs=1e-9)


@given(LABELLED)
def test_average_precision_with_ties_is_that_of_scikit_learn(rows: list[tuple[int, int]]) -> None:
    scores, labels = (np.array(side, float) for side in zip(*rows, strict=True))
    if labels.any():
        assert average_precision(scores, labels) == pytest.approx(metrics.average_precision_score(labels, scores))
    else:
        assert average_precision(scores, labels) == 0  # scikit-learn warns and says 0


@given(LABELLED)
def test_steps_down_start_where_the_value_changes(rows: list[tuple[int, int]]) -> None:
    scores = np.array([score for score, _ in rows], float)
    order, starts = steps_down(scores)
    assert sorted(order) == list(range(len(scores)))
    assert scores[order][starts].tolist() == sorted(set(scores), reverse=True)
    assert starts.tolist() == [int((scores > value).sum()) for value in scores[order][starts]]


@given(GRADES, GRADES, st.integers(1, 35))
def test_ndcg_is_that_of_trec_eval(ranked: list[float], missed: list[float], k: int) -> None:
    def gained(grades: list[float]) -> float:
        return sum(grade / math.log2(rank + 1) for rank, grade in enumerate(grades[:k], 1))

    everything = ranked + missed
    best = gained(sorted(everything, reverse=True))
    assert ndcg(ranked, everything, k) == pytest.approx(gained(ranked) / best if best else 0)


@given(GRADES)
def test_ndcg_of_a_whole_corpus_is_that_of_scikit_learn(ranked: list[float]) -> None:
    falling = -np.arange(len(ranked))  # one score each: scikit-learn shares the gain of ties, trec_eval does not
    if len(ranked) > 1 and any(ranked):
        assert ndcg(ranked, ranked, 10) == pytest.approx(metrics.ndcg_score([ranked], [falling], k=10))


@given(GRADES, st.integers(0, 5), st.integers(1, 35))
def test_recall_counts_the_judged_documents_found(ranked: list[float], missed: int, k: int) -> None:
    relevant = {index for index, grade in enumerate(ranked) if grade}
    judged = len(relevant) + missed
    if judged:
        hits = relevant & set(range(k))
        assert recall(ranked, judged, k) == len(hits) / judged
        assert all_found(ranked, judged, k) == (len(hits) == judged)


@given(GRADES, st.integers(1, 35))
def test_the_reciprocal_rank_is_that_of_the_first_hit(ranked: list[float], k: int) -> None:
    hits = [rank for rank, grade in enumerate(ranked, 1) if grade and rank <= k]
    assert reciprocal_rank(ranked, k) == (1 / min(hits) if hits else 0)
