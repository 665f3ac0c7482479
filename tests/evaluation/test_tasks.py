from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics

from demitasse import DataError
from demitasse.evaluation import tasks
from demitasse.evaluation.tasks import PairTask, SearchTask, rankings

WORDS = ("a cup", "a mug", "a bus", "a train")


def unit_vectors(count: int, dims: int, seed: int) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(count, dims)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def pair_task(gold: np.ndarray, *, binary: bool = False) -> PairTask:
    left, right = (tuple(f"{side} {number}" for number in range(len(gold))) for side in ("left", "right"))
    return PairTask("pairs", "pairs", left, right, gold, binary=binary)


def slow_ranking(query: np.ndarray, documents: np.ndarray) -> list[int]:
    cosines = [float(query @ document) for document in documents]
    return sorted(range(len(documents)), key=lambda number: (-cosines[number], number))


def test_scored_pairs_are_judged_by_spearman() -> None:
    gold = np.round(np.random.default_rng(0).uniform(0, 5, 80), 1)
    left, right = unit_vectors(80, 16, 1), unit_vectors(80, 16, 2)
    task = pair_task(gold)
    scores = task.score(left, right)
    cosines = [float(a @ b) for a, b in zip(left, right, strict=True)]
    assert task.metric == "spearman"
    assert scores.main == pytest.approx(100 * stats.spearmanr(cosines, gold).statistic, abs=1e-6)
    np.testing.assert_allclose(scores.units, cosines, atol=1e-6)
    assert scores.others == {}


def test_pairs_of_the_same_vectors_tie() -> None:
    """However their cosines were rounded: with few layers many texts have the very same vector."""
    left = unit_vectors(50, 576, seed=4)
    task = pair_task(np.arange(50.0))
    assert task.score(left, left).main == 0.0
    noisy = left * (1 + 1e-7 * np.random.default_rng(5).normal(size=(50, 1))).astype(np.float32)
    assert task.score(left, noisy).main == 0.0


def test_matching_pairs_are_judged_by_average_precision() -> None:
    gold = np.random.default_rng(0).integers(0, 2, 80).astype(float)
    left, right = unit_vectors(80, 16, 1), unit_vectors(80, 16, 2)
    task = pair_task(gold, binary=True)
    assert task.metric == "average precision"
    expected = metrics.average_precision_score(gold, (left * right).sum(1))
    assert task.score(left, right).main == pytest.approx(100 * expected)


@pytest.mark.parametrize("block", [1, 700, 1 << 24])
def test_search_is_judged_query_by_query(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    """Against the metrics written down query by query, with tables of every size in memory."""
    monkeypatch.setattr(tasks, "_BLOCK", block)
    generator = np.random.default_rng(3)
    documents, queries = unit_vectors(150, 8, 1), unit_vectors(20, 8, 2)
    judgements = tuple(
        {int(number): float(generator.integers(1, 3)) for number in generator.choice(150, 1 + query % 3, replace=False)}
        for query in range(20)
    )
    texts = tuple(f"Document {number} ends" for number in range(150))
    answers = tuple(None if query % 4 else f"DOCUMENT {query} " for query in range(20))
    task = SearchTask("s", "s", texts, tuple(f"q{query}" for query in range(20)), judgements, answers)
    scores = task.score(queries, documents)
    nearest = [slow_ranking(query, documents) for query in queries]

    def mean(values: list[float]) -> float:
        return pytest.approx(100 * sum(values) / len(values))

    gains = []
    for ranking, judged in zip(nearest, judgements, strict=True):
        gain = sum(judged.get(number, 0) / np.log2(rank + 2) for rank, number in enumerate(ranking[:10]))
        gains.append(gain / sum(g / np.log2(rank + 2) for rank, g in enumerate(sorted(judged.values(), reverse=True))))
    np.testing.assert_allclose(scores.units, gains)
    assert scores.main == mean(gains)
    at = {k: [len({*r[:k]} & {*j}) / len(j) for r, j in zip(nearest, judgements, strict=True)] for k in range(1, 101)}
    expected = {f"recall@{k}": mean(at[k]) for k in (1, 5, 10, 20, 50, 100)}
    expected |= {f"all@{k}": mean([share == 1 for share in at[k]]) for k in (5, 10, 20)}
    firsts = [min(r.index(number) for number in j) + 1 for r, j in zip(nearest, judgements, strict=True)]
    expected["mrr@10"] = mean([1 / first if first <= 10 else 0 for first in firsts])
    expected |= {f"answer@{k}": mean([query in nearest[query][:k] for query in range(0, 20, 4)]) for k in (5, 10)}
    assert scores.others == expected


def test_search_among_few_documents_has_no_recall_beyond_them() -> None:
    task = SearchTask("s", "s", WORDS[:2], ("a mug",), ({1: 1.0},), (None,))
    assert task.score(unit_vectors(1, 4, 0), unit_vectors(2, 4, 0)).others == {"recall@1": 0, "mrr@10": 50}


@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(1, 40), st.integers(1, 15))
def test_nearestare_exact_with_ties_by_index(seed: int, queries: int, documents: int, count: int) -> None:
    # Small whole numbers, so that cosines are exact and mostly tied.
    generator = np.random.default_rng(seed)
    asked = generator.integers(-1, 2, (queries, 3)).astype(np.float32)
    texts = generator.integers(-1, 2, (documents, 3)).astype(np.float32)
    assert [*rankings(asked, texts, count)] == [slow_ranking(query, texts)[:count] for query in asked]


def test_the_hash_is_that_of_the_content() -> None:
    gold = np.array([1.0, 0.0])
    first = PairTask("x", "x", WORDS[:2], WORDS[2:], gold, binary=True)
    assert first.sha256 == PairTask("y", "z", WORDS[:2], WORDS[2:], gold.astype(np.float32), binary=True).sha256
    assert len(first.sha256) == 64
    other = [
        PairTask("x", "x", WORDS[2:], WORDS[:2], gold, binary=True),
        PairTask("x", "x", WORDS[:2], WORDS[2:], gold[::-1], binary=True),
        SearchTask("x", "x", WORDS, WORDS[:1], ({1: 1.0},), (None,)),
        SearchTask("x", "x", WORDS, WORDS[:1], ({1: 2.0},), (None,)),
        SearchTask("x", "x", WORDS, WORDS[:1], ({1: 1.0},), ("mug",)),
        SearchTask("x", "x", WORDS[::-1], WORDS[:1], ({1: 1.0},), (None,)),
    ]
    assert len({task.sha256 for task in (first, *other)}) == 7


def test_an_inconsistent_task_is_refused() -> None:
    with pytest.raises(DataError, match="2 left texts, 1 right texts and 2 scores; it needs the same number of each"):
        PairTask("x", "x", WORDS[:2], WORDS[:1], np.ones(2), binary=False)
    with pytest.raises(DataError, match="0 left texts"):
        PairTask("x", "x", (), (), np.ones(0), binary=False)
    with pytest.raises(DataError, match="1 queries, 0 judgements and 1 answers"):
        SearchTask("x", "x", WORDS, WORDS[:1], (), (None,))
    for judged in ({}, {4: 1.0}, {-1: 1.0}, {0: 0.0}):
        with pytest.raises(DataError, match="for the query 'a cup'; give grades above 0 for documents from 0 to 3"):
            SearchTask("x", "x", WORDS, WORDS[:1], (judged,), (None,))
