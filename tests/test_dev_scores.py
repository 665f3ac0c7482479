from __future__ import annotations

import numpy as np
import pytest
import zoo
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from demitasse import Cut, Encoder, grid, read_pairs
from demitasse.dev_scores import dev_scores, ranks, spearman

# Few values, so that many are tied.
TABLES = st.lists(st.tuples(st.integers(0, 5), st.sampled_from([0.0, 0.5, 1.5, 4.0, -2.0])), min_size=3, max_size=40)


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


def test_every_cut_is_scored_as_if_it_were_alone(encoder: Encoder) -> None:
    left, right = zoo.sentences(60, seed=1), zoo.sentences(60, seed=2)
    gold = [round(number % 7 / 2, 1) for number in range(60)]
    data = read_pairs(list(zip(left, right, gold, strict=True)))
    cuts = grid([0, 2, 3], [8, 32])
    scores = dev_scores(encoder, data.sources[0], cuts)
    assert list(scores) == [str(cut) for cut in cuts]
    for cut in cuts:
        small = encoder.cut(*cut)
        cosines = (small.encode(left) * small.encode(right)).sum(1)
        assert scores[str(cut)] == pytest.approx(100 * stats.spearmanr(cosines, gold).statistic, abs=0.01)


def test_a_dev_set_of_one_score_tells_nothing(encoder: Encoder) -> None:
    texts = zoo.sentences(8)
    data = read_pairs([(texts[place], texts[place + 4], 1.0) for place in range(4)])
    assert dev_scores(encoder, data.sources[0], [Cut(3, 32)]) == {"3x32": 0.0}
