from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import zoo

from demitasse import Cut, DataError, Encoder, evaluate, grid, load, restore, store
from demitasse.encoding.vectors import STORED
from demitasse.evaluation.tasks import PairTask, SearchTask
from demitasse.planning.agreement import Reference
from demitasse.planning.quality import AgreementJudge, TaskJudge, quality_judge
from demitasse.planning.timing import plan_work

TEXTS = [*dict.fromkeys(zoo.sentences(170, seed=3))][:160]
CUTS = grid([0, 2, 3], [8, 32])


def pairs(name: str, group: str, start: int = 0) -> PairTask:
    gold = np.random.default_rng(start).integers(0, 6, 40).astype(float)
    return PairTask(name, group, tuple(TEXTS[start : start + 40]), tuple(TEXTS[start + 40 : start + 80]), gold, False)


SEARCH = SearchTask("search", "search", tuple(TEXTS[:60]), tuple(TEXTS[-20:]), ({3: 1.0, 7: 2.0},) * 20, (None,) * 20)


def qualities(encoder: Encoder, tasks: Sequence[PairTask | SearchTask], cuts: Sequence[Cut] = CUTS):  # type: ignore[no-untyped-def]
    return TaskJudge(tasks).qualities({"fp32": encoder}, cuts, STORED, lambda steps: None)


def test_quality_is_the_mean_of_the_groups_of_evaluate(encoder: Encoder) -> None:
    tasks = [pairs("one", "both"), pairs("two", "both", 30), SEARCH]
    measured = qualities(encoder, tasks)
    evaluation = evaluate(encoder, tasks, cuts=CUTS, resamples=0)
    for cut in CUTS:
        expected = (evaluation.score("both", cut) + evaluation.score("search", cut)) / 2
        assert measured.values["fp32", cut, "float32"] == pytest.approx(expected, rel=1e-12)
    assert len(measured.values) == len(CUTS) * len(STORED)


@pytest.mark.parametrize("task", [pairs("one", "one"), SEARCH], ids=["pairs", "search"])
def test_the_error_is_half_the_interval_of_the_full_size(task: PairTask | SearchTask, encoder: Encoder) -> None:
    low, high = evaluate(encoder, [task], cuts=[encoder.full]).interval(task.name, encoder.full)
    assert qualities(encoder, [task]).error == pytest.approx((high - low) / 2)


@pytest.mark.parametrize("kind", STORED)
def test_vectors_are_judged_as_they_are_stored(kind: str, encoder: Encoder) -> None:
    task = pairs("one", "one")
    measured = qualities(encoder, [task, SEARCH])
    for cut in (Cut(2, 8), encoder.full):
        small = encoder.cut(*cut)
        sides = [small.encode(side.texts, prompt_name=side.prompt_name) for side in (*task.sides, *SEARCH.sides)]
        left, right, queries, documents = (restore(store(side, kind), kind, cut.dims) for side in sides)
        expected = (task.score(left, right).main + SEARCH.score(queries, documents).main) / 2
        assert measured.values["fp32", cut, kind] == pytest.approx(expected, abs=0.5)  # rounding may swap two ranks


def test_smaller_vectors_cost_some_quality() -> None:
    blocks = load()
    judge = quality_judge(None, None)
    values = judge.qualities({"int8": blocks}, [blocks.full], STORED, lambda steps: None).values
    float32, float16, int8, binary = (values["int8", blocks.full, kind] for kind in STORED)
    assert float16 == pytest.approx(float32, abs=0.2)
    assert int8 == pytest.approx(float32, abs=1)
    assert float32 - 15 < binary < float32 - 1


def test_quality_is_described_in_words() -> None:
    assert quality_judge(None, None).measure == "mean of Spearman on sample-pairs and nDCG@10 on sample-search"
    assert TaskJudge([SEARCH]).measure == "nDCG@10 on search"
    assert (
        TaskJudge([pairs("a", "sts"), pairs("b", "sts", 9), SEARCH]).measure
        == "mean of Spearman on sts and nDCG@10 on search"
    )
    assert quality_judge(None, TEXTS).measure == "agreement with the full model on 160 texts of a list"


def test_queries_are_timed_one_by_one_and_documents_in_batches() -> None:
    judge = TaskJudge([SEARCH])
    work = plan_work(judge.single_texts, judge.batch_texts, 32)
    assert {prompt for _, prompt in work.singles} == {"query"}
    assert {texts[0] for texts, _ in work.singles} == {*SEARCH.queries}
    ((texts, prompt),) = work.batches
    assert prompt == "document"
    assert len({*texts}) == len(texts) == 32
    assert {*texts} <= {*SEARCH.documents}
    both = TaskJudge([pairs("one", "one")])
    assert both.single_texts == both.batch_texts
    assert {text for text, _ in both.single_texts} == {*TEXTS[:80]}


def test_agreement_is_with_the_first_encoder_at_its_full_size(encoder: Encoder) -> None:
    judge = AgreementJudge(TEXTS, "x.txt")
    small = encoder.cut(layers=2)
    values = judge.qualities(
        {"fp32": encoder, "other": small}, grid([0, 2], [8, 32]), STORED, lambda steps: None
    ).values
    reference = Reference(encoder.encode(TEXTS))
    for cut in grid([0, 2], [8, 32]):
        expected = reference.agreement(encoder.cut(*cut).encode(TEXTS))
        assert values["fp32", cut, "float32"] == pytest.approx(expected, abs=0.5)
        assert values["other", cut, "float32"] == pytest.approx(expected, abs=0.5)
    whole = judge.qualities({"fp32": encoder}, [encoder.full], STORED, lambda steps: None)
    assert whole.values["fp32", encoder.full, "float32"] == 100
    assert 0 < whole.values["fp32", encoder.full, "binary"] < whole.values["fp32", encoder.full, "int8"] < 100
    assert whole.error == 0


def test_texts_are_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("\n".join([*TEXTS, "", *TEXTS]))
    judge = quality_judge(None, tmp_path / "mine.txt")
    assert isinstance(judge, AgreementJudge)
    assert judge.texts == TEXTS
    assert judge.measure == "agreement with the full model on 160 texts of mine.txt"
    assert quality_judge(None, str(tmp_path / "mine.txt")) == judge


def test_quality_comes_from_tasks_or_texts_not_both() -> None:
    with pytest.raises(DataError, match=r"both tasks and texts were given, .* leave one out"):
        quality_judge(["sample"], TEXTS)
    with pytest.raises(DataError, match="tasks must be a list"):
        quality_judge("sample", None)
    with pytest.raises(DataError, match=r"cannot read 'nowhere\.txt'"):
        quality_judge(None, "nowhere.txt")
