from __future__ import annotations

import math
import random
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
import zoo
from scipy.stats import spearmanr
from sklearn.metrics import average_precision_score

from demitasse import Cut, CutError, DataError, Encoder, evaluate, grid, load, read_pairs
from demitasse.encoding.token_tally import TokenTally
from demitasse.encoding.vectors import Vectors
from demitasse.evaluation.evaluate import dev_scores
from demitasse.evaluation.evaluation import Evaluation
from demitasse.evaluation.metrics import Values
from demitasse.evaluation.tasks import PairTask, Scores, SearchTask

TEXTS = zoo.sentences(120, seed=3)


def pair_task(name: str = "pairs", count: int = 40, binary: bool = False) -> PairTask:
    gold = np.random.default_rng(len(name)).integers(0, 2 if binary else 6, count).astype(float)
    return PairTask(name, name, tuple(TEXTS[:count]), tuple(TEXTS[count : 2 * count]), gold, binary)


def search_task(name: str = "search", documents: int = 60, queries: int = 15) -> SearchTask:
    draw = random.Random(name)
    judged = tuple({draw.randrange(documents): float(draw.randint(1, 3)) for _ in range(3)} for _ in range(queries))
    answers = (None,) * queries
    return SearchTask(name, name, tuple(TEXTS[:documents]), tuple(TEXTS[-queries:]), judged, answers)


@dataclass(frozen=True, eq=False)
class PairSpy(PairTask):
    """A task that keeps the vectors it is given."""

    given: list[tuple[Values, Values]] = field(default_factory=list)

    def score(self, left: Values, right: Values) -> Scores:
        self.given.append((left, right))
        return super().score(left, right)


@dataclass(frozen=True, eq=False)
class SearchSpy(SearchTask):
    given: list[tuple[Values, Values]] = field(default_factory=list)

    def score(self, queries: Values, documents: Values) -> Scores:
        self.given.append((queries, documents))
        return super().score(queries, documents)


def spy(task: PairTask | SearchTask) -> PairSpy | SearchSpy:
    kind = PairSpy if isinstance(task, PairTask) else SearchSpy
    return kind(**vars(task))


@pytest.fixture(params=["torch", "blocks"])
def any_encoder(request: pytest.FixtureRequest, encoder: Encoder) -> Encoder:
    return encoder if request.param == "torch" else load().cut(3, 64)


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch, encoder: Encoder) -> list[tuple[list[str], int]]:
    """The texts that went through the model so far, and how deep."""
    seen: list[tuple[list[str], int]] = []
    real = type(encoder)._embed_windows

    def counting(
        self: Encoder,
        parts: Iterable[list[str]],
        cuts: Sequence[Cut],
        prefix: str,
        tally: TokenTally,
        advance: Callable[[int], None],
    ) -> Iterator[dict[Cut, Vectors]]:
        held = list(parts)
        seen.append(([text for window in held for text in window], self.full.layers))
        return real(self, held, cuts, prefix, tally, advance)  # type: ignore[arg-type]

    monkeypatch.setattr(type(encoder), "_embed_windows", counting)
    return seen


def slow_ndcg(task: SearchTask, queries: Vectors, documents: Vectors) -> float:
    values = []
    for query, judged in zip(queries, task.judgements, strict=True):
        order = sorted(range(len(documents)), key=lambda number: (-float(documents[number] @ query), number))
        gain = sum(judged.get(number, 0) / math.log2(rank + 2) for rank, number in enumerate(order[:10]))
        best = sum(grade / math.log2(rank + 2) for rank, grade in enumerate(sorted(judged.values())[::-1][:10]))
        values.append(gain / best)
    return 100 * sum(values) / len(values)


def test_every_cut_scores_what_it_scores_alone(any_encoder: Encoder) -> None:
    tasks = [pair_task(), pair_task("binary", 30, binary=True), search_task()]
    cuts = grid([0, 1, 3], [5, 32])
    evaluation = evaluate(any_encoder, tasks, cuts=cuts, resamples=0)
    assert evaluation.cuts == tuple(cuts)
    for cut in cuts:
        small = any_encoder.cut(*cut)
        left, right = (small.encode(side) for side in (tasks[0].left, tasks[0].right))
        expected = 100 * spearmanr((left * right).sum(1), tasks[0].gold).statistic
        assert evaluation.score("pairs", cut) == pytest.approx(expected, abs=0.5)  # rounding may swap two ranks
        left, right = (small.encode(side) for side in (tasks[1].left, tasks[1].right))
        expected = 100 * average_precision_score(tasks[1].gold, (left * right).sum(1))
        assert evaluation.score("binary", cut) == pytest.approx(expected, abs=0.5)
        queries = small.encode(tasks[2].queries, prompt_name="query")
        documents = small.encode(tasks[2].documents, prompt_name="document")
        assert evaluation.score("search", cut) == pytest.approx(slow_ndcg(tasks[2], queries, documents), abs=0.5)


def test_narrow_rows_are_those_of_the_cut(any_encoder: Encoder) -> None:
    """Prefixes of the full width, made of unit length again, and each side with its prompt."""
    pairs, search = spy(pair_task()), spy(search_task())
    cuts = grid([0, 2, 3], [1, 7, any_encoder.full.dims])
    evaluate(any_encoder, [pairs, search], cuts=cuts, resamples=0)
    by_dims = sorted(cuts, key=lambda cut: (cut.dims, cut.layers))
    for task, prompts in ((pairs, (None, None)), (search, ("query", "document"))):
        texts = (task.left, task.right) if isinstance(task, PairTask) else (task.queries, task.documents)
        assert len(task.given) == len(cuts)
        for cut, given in zip(by_dims, task.given, strict=True):
            for vectors, side, prompt in zip(given, texts, prompts, strict=True):
                expected = any_encoder.cut(*cut).encode(side, prompt_name=prompt)
                # A short prefix is divided by its length, and with it what rounding left in another batch.
                whole = any_encoder.cut(layers=cut.layers).encode(side, prompt_name=prompt)
                length = np.linalg.norm(whole[:, : cut.dims], axis=1, keepdims=True)
                np.testing.assert_allclose(vectors * length, expected * length, atol=1e-6)


def test_each_text_is_encoded_once(encoder: Encoder, encoded: list[tuple[list[str], int]]) -> None:
    texts = ("kan", "lor", "kan", "mist")
    pairs = PairTask("twice", "twice", texts, texts[::-1], np.arange(4.0), binary=False)
    search = SearchTask("s", "s", ("kan", "lor", "kan"), ("mist", "mist"), ({0: 1.0}, {1: 1.0}), (None, None))
    evaluate(encoder, [pairs, search], cuts=grid([0, 2], [8, 16]), resamples=0)
    assert encoded == [(["kan", "lor", "mist"], 2), (["mist"], 2), (["kan", "lor"], 2)]


@pytest.mark.parametrize("name", ["BERT", "DeBERTa-v2", "ModernBERT"])
def test_without_cuts_every_number_of_layers_is_measured(name: str, model_folder: Callable[..., Path]) -> None:
    evaluation = evaluate(load(model_folder(name), device="cpu"), [pair_task()], resamples=0)
    assert evaluation.cuts == tuple(grid([0, 1, 2, 3], [32]))
    assert evaluation.full == Cut(3, 32)


def test_queries_may_have_fewer_layers_than_documents(encoder: Encoder) -> None:
    task = search_task()
    evaluation = evaluate(encoder, [task], cuts=grid([1, 2], [8, 32]), document_layers=[0, 3], resamples=0)
    assert evaluation.document_layers == (0, 3)
    assert len(evaluation.scores) == 8
    for score in evaluation.scores:
        queries = encoder.cut(*score.cut).encode(task.queries, prompt_name="query")
        documents = encoder.cut(score.document_layers, score.cut.dims).encode(task.documents, prompt_name="document")
        assert score.value == pytest.approx(slow_ndcg(task, queries, documents), abs=0.5)
        assert score.value == evaluation.score("search", score.cut, score.document_layers)
    with pytest.raises(DataError, match=r"cut 1x8 was not measured on search"):
        evaluation.score("search", Cut(1, 8))


def test_pairs_of_unlike_layers_count_both_ways_round(encoder: Encoder) -> None:
    task = pair_task()
    evaluation = evaluate(encoder, [task], cuts=[Cut(1, 16), Cut(3, 16)], document_layers=[3], resamples=200)
    ways = [
        100
        * spearmanr((encoder.cut(a, 16).encode(task.left) * encoder.cut(b, 16).encode(task.right)).sum(1), task.gold)[0]
        for a, b in ((1, 3), (3, 1))
    ]
    assert ways[0] != pytest.approx(ways[1], abs=0.5)
    assert evaluation.score("pairs", Cut(1, 16), 3) == pytest.approx(np.mean(ways), abs=0.1)
    alone = evaluate(encoder, [task], cuts=[Cut(3, 16)], resamples=200)
    assert evaluation.interval("pairs", Cut(3, 16), 3) == alone.interval("pairs", Cut(3, 16))
    low, high = evaluation.interval("pairs", Cut(1, 16), 3)
    assert low < np.mean(ways) < high


def test_each_combination_of_layers_is_scored_once(encoder: Encoder) -> None:
    task = spy(pair_task())
    evaluation = evaluate(encoder, [task], cuts=grid([1, 2, 3], [8, 16]), document_layers=[1, 2, 3], resamples=20)
    assert len(evaluation.scores) == len(task.given) == 18
    for dims in (8, 16):
        assert evaluation.score("pairs", Cut(1, dims), 3) == evaluation.score("pairs", Cut(3, dims), 1)
        assert evaluation.interval("pairs", Cut(1, dims), 3) == evaluation.interval("pairs", Cut(3, dims), 1)


def test_a_cache_changes_nothing(any_encoder: Encoder, tmp_path: Path) -> None:
    tasks, cuts = [pair_task(), search_task()], grid([1, 3], [8, 32])
    plain = evaluate(any_encoder, tasks, cuts=cuts, resamples=50)
    for _ in range(2):
        cached = evaluate(any_encoder, tasks, cuts=cuts, cache=tmp_path / "cache", resamples=50)
        assert cached.scores == plain.scores
        assert cached.means == plain.means


def test_a_cache_is_used_by_the_next_task(
    encoder: Encoder, encoded: list[tuple[list[str], int]], tmp_path: Path
) -> None:
    shared = PairTask("other", "other", pair_task().right, pair_task().left, np.arange(40.0), binary=False)
    evaluate(encoder, [pair_task(), shared], cuts=[Cut(3, 32)], cache=tmp_path, resamples=0)
    assert len(encoded) == 1


def test_intervals_hold_the_score_and_narrow_with_more_rows(encoder: Encoder) -> None:
    few, many = pair_task("few", 15), pair_task("many", 60)
    evaluation = evaluate(encoder, [few, many], cuts=[Cut(3, 32)])
    spans = []
    for name in ("few", "many"):
        low, high = evaluation.interval(name, Cut(3, 32))
        assert low < evaluation.score(name, Cut(3, 32)) < high
        spans.append(high - low)
    assert spans[1] < spans[0]
    assert evaluation.resamples == 1000


def test_the_same_model_does_not_differ_from_itself(encoder: Encoder) -> None:
    first, second = (evaluate(encoder, [pair_task(), search_task()], cuts=grid([1, 3], [8, 32])) for _ in range(2))
    assert first.scores == second.scores
    same = first.difference(second, "pairs", Cut(1, 8))
    assert (same.value, same.low, same.high, same.p) == (0, 0, 0, 1)
    other = first.difference(first, "search", Cut(3, 32), Cut(1, 8))
    assert other.low <= other.value <= other.high


def test_it_says_what_was_measured_and_with_what(encoder: Encoder) -> None:
    evaluation = evaluate(encoder, [pair_task(), search_task()], cuts=[Cut(1, 8)], resamples=0)
    assert (evaluation.model, evaluation.precision) == ("tiny", "fp32")
    assert evaluation.fingerprint == encoder.fingerprint
    assert evaluation.versions["torch"].startswith("2.")
    assert evaluation.versions.keys() >= {"demitasse", "python", "numpy"}
    pairs, search = evaluation.tasks
    assert (pairs.kind, pairs.metric, pairs.counts) == ("pairs", "spearman", {"pairs": 40})
    judgements = sum(map(len, search_task().judgements))
    assert search.counts == {"queries": 15, "documents": 60, "judgements": judgements}
    assert search.sha256 == search_task().sha256
    assert evaluation.seconds > 0
    assert {"recall@10", "mrr@10"} <= set(evaluation.find("search", Cut(1, 8)).others)


def test_the_sample_is_the_default() -> None:
    evaluation = evaluate(load(), cuts=[Cut(6, 384), Cut(0, 32)])
    for group in evaluation.groups:
        assert evaluation.score(group, Cut(6, 384)) > evaluation.score(group, Cut(0, 32)) > 30


def test_it_needs_no_torch() -> None:
    program = (
        "import sys, demitasse as dt; dt.evaluate(dt.load(), cuts=[dt.Cut(1, 32)]);"
        "print({'torch', 'transformers', 'scipy', 'sklearn', 'matplotlib'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "set()\n"


BAD: dict[str, tuple[dict[str, object], type[Exception], str]] = {
    "no tasks": ({"tasks": []}, DataError, "no tasks were given; name at least one, such as"),
    "one task": ({"tasks": "sample"}, DataError, "tasks must be a list, not one str; wrap it"),
    "one task object": ({"tasks": pair_task()}, DataError, "tasks must be a list, not one PairTask"),
    "unknown task": ({"tasks": ["nowhere"]}, DataError, "nowhere"),
    "two of a name": ({"tasks": [pair_task(), pair_task()]}, DataError, "two tasks have the name 'pairs'"),
    "a name and a group": (
        {"tasks": [pair_task("a"), replace(pair_task("b"), group="a")]},
        DataError,
        "two tasks have the name 'a'",
    ),
    "no cuts": ({"cuts": []}, CutError, "no cuts were given; name at least one"),
    "no document layers": ({"document_layers": []}, CutError, "there is nothing to measure"),
    "too deep": ({"cuts": [Cut(9, 8)]}, CutError, "deeper than this encoder"),
    "too wide": ({"cuts": [Cut(1, 80)]}, CutError, "wider than this encoder"),
    "documents too deep": ({"document_layers": [4]}, CutError, "deeper than this encoder"),
    "no such resamples": ({"resamples": -1}, DataError, "resamples must be a whole number of at least 0, not -1"),
    "too many resamples": ({"resamples": 10**30}, DataError, "resamples must be at most 100,000"),
    "half a resample": ({"resamples": 0.5}, DataError, "resamples must be a whole number of at least 0, not 0.5"),
    "no encoder": ({"encoder": "model"}, DataError, "encoder must be an Encoder, not 'model'"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_calls_are_one_sentence(name: str, encoder: Encoder) -> None:
    given, kind, said = BAD[name]
    with pytest.raises(kind, match=said) as raised:
        evaluate(**{"encoder": encoder, "tasks": [pair_task()], **given})  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)


def test_groups_are_means(encoder: Encoder) -> None:
    tasks = [
        PairTask(name, "both", task.left, task.right, task.gold, task.binary)
        for name, task in (("one", pair_task()), ("two", pair_task("other", 30)))
    ]
    evaluation: Evaluation = evaluate(encoder, tasks, cuts=[Cut(2, 16)], resamples=300)
    cut = Cut(2, 16)
    assert evaluation.groups == ("both",)
    assert evaluation.score("both", cut) == pytest.approx(
        (evaluation.score("one", cut) + evaluation.score("two", cut)) / 2
    )
    widths = [np.ptp(evaluation.interval(name, cut)) for name in ("both", "one", "two")]
    assert widths[0] < max(widths[1:])  # the tasks are drawn apart from one another


def test_dev_scores_are_those_of_each_cut_alone(encoder: Encoder) -> None:
    left, right = zoo.sentences(60, seed=1), zoo.sentences(60, seed=2)
    gold = [round(number % 7 / 2, 1) for number in range(60)]
    data = read_pairs(list(zip(left, right, gold, strict=True)))
    cuts = grid([0, 2, 3], [8, 32])
    scores = dev_scores(encoder, data.sources[0], cuts)
    assert list(scores) == [str(cut) for cut in cuts]
    for cut in cuts:
        small = encoder.cut(*cut)
        # Batches of other texts may move the last bit, and so swap two ranks of the 60.
        cosines = (small.encode(left) * small.encode(right)).sum(1)
        assert scores[str(cut)] == pytest.approx(100 * spearmanr(cosines, gold).statistic, abs=0.5)


def test_a_dev_set_with_one_score_throughout_scores_zero(encoder: Encoder) -> None:
    texts = zoo.sentences(8)
    data = read_pairs([(texts[index], texts[index + 4], 1.0) for index in range(4)])
    assert dev_scores(encoder, data.sources[0], [Cut(3, 32)]) == {"3x32": 0.0}


def test_each_side_of_a_dev_pair_has_its_prompt(model_folder: Callable[..., Path]) -> None:
    tiny = load(model_folder("BERT"), device="cpu")
    encoder = replace(tiny, reader=replace(tiny.reader, prompts={"query": "kan lor ", "document": "mist "}))
    left, right = zoo.sentences(40, seed=1), zoo.sentences(40, seed=2)
    gold = [float(number % 5) for number in range(40)]
    pairs, cut = read_pairs(list(zip(left, right, gold, strict=True))).sources[0], Cut(3, 32)
    scores = {}
    for prompts, sides in {
        (): (None, None),
        ("query",): ("query", "query"),
        ("query", "document"): ("query", "document"),
        ("query", "document", "query"): ("query", "document"),
    }.items():
        cosines = (encoder.encode(left, prompt_name=sides[0]) * encoder.encode(right, prompt_name=sides[1])).sum(1)
        scores[prompts] = dev_scores(encoder, pairs, [cut], prompts)["3x32"]
        assert scores[prompts] == pytest.approx(100 * spearmanr(cosines, gold).statistic, abs=0.5)
    assert len({*scores.values()}) == 3
