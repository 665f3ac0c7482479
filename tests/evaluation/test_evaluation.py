from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evaluations import CUTS, FULL, evaluation, unresampled
from hypothesis import given
from hypothesis import strategies as st

from demitasse import Cut, CutError, DataError, DemitasseError, Evaluation, read_evaluation
from demitasse.evaluation.evaluation_json import comparison
from demitasse.evaluation.score_types import Draws, Score, ScoreKey, TaskFacts, group_means, shallow_means
from demitasse.host.json_files import json_text


def test_scores_are_found_by_task_and_group() -> None:
    made = evaluation()
    assert made.groups == ("both", "alone")
    assert made.cuts == tuple(CUTS)
    assert made.document_layers == ()
    assert made.score("a", Cut(2, 4)) == 74
    assert made.score("b", Cut(2, 4)) == 75
    assert made.score("both", Cut(2, 4)) == 74.5
    assert made.score("alone", Cut(2, 4)) == 76
    assert made.find("alone", Cut(2, 4)).others == {"mrr@10": 38}
    assert made.find("both", Cut(2, 4)).metric == "spearman"


def test_shallow_is_the_mean_between_none_and_all_layers() -> None:
    made = evaluation()
    assert made.shallow("both", 8) == (made.score("both", Cut(1, 8)) + made.score("both", Cut(2, 8))) / 2
    assert made.shallow("a", 4) == (64 + 74) / 2
    assert made.share("a", Cut(1, 4)) == 64 / 88
    assert made.share("both", FULL) == 1


def test_a_group_has_the_interval_of_its_mean_draw() -> None:
    made = evaluation()
    cut = Cut(1, 8)
    mean = (made.draws["a", cut, 1] + made.draws["b", cut, 1]) / 2
    np.testing.assert_allclose(made.interval("both", cut), np.quantile(mean, [0.025, 0.975]))


def test_the_shallow_mean_has_the_interval_of_its_mean_draw() -> None:
    made = evaluation()
    for name, tasks in (("both", "ab"), ("a", "a"), ("alone", ["alone"])):
        mean = np.mean([made.draws[task, Cut(layers, 4), layers] for task in tasks for layers in (1, 2)], axis=0)
        np.testing.assert_allclose(made.shallow_interval(name, 4), np.quantile(mean, [0.025, 0.975]))
    assert {(mean.task, mean.dims) for mean in made.shallows} == {
        (name, dims) for name in ("a", "b", "both", "alone") for dims in (4, 8)
    }


def test_shallow_means_are_compared_on_the_same_draws() -> None:
    ours, theirs = evaluation(1.0), evaluation()
    difference = ours.shallow_difference(theirs, "both", 8)
    assert difference.value == pytest.approx(1)
    assert (difference.low, difference.high, difference.p) == (
        pytest.approx(1),
        pytest.approx(1),
        pytest.approx(2 / 201),
    )
    narrower = ours.shallow_difference(ours, "both", 8, 4)
    assert narrower.value == 4
    wide, narrow = (
        np.mean([ours.draws[task, Cut(layers, dims), layers] for task in "ab" for layers in (1, 2)], axis=0)
        for dims in (8, 4)
    )
    np.testing.assert_allclose((narrower.low, narrower.high), np.quantile(wide - narrow, [0.025, 0.975]))


def test_a_shallow_mean_needs_every_shallow_cut() -> None:
    made = evaluation()
    some = [score for score in made.scores if (score.task, score.cut) != ("b", Cut(2, 8))]
    kept = {(mean.task, mean.dims) for mean in shallow_means(some, made.draws, FULL)}
    assert kept == {("a", 4), ("a", 8), ("b", 4), ("both", 4), ("alone", 4), ("alone", 8)}
    across = [replace(score, document_layers=3) for score in made.scores]
    assert shallow_means(across, made.draws, FULL) == ()


def test_a_difference_is_paired() -> None:
    made = evaluation()
    cut, other_cut = Cut(3, 8), Cut(2, 8)
    difference = made.difference(made, "both", cut, other_cut)
    assert difference.value == made.score("both", cut) - made.score("both", other_cut) == 10
    draws = [np.mean([made.draws[task, at, at.layers] for task in "ab"], axis=0) for at in (cut, other_cut)]
    np.testing.assert_allclose((difference.low, difference.high), np.quantile(draws[0] - draws[1], [0.025, 0.975]))
    # What both have in common is gone: each alone is far less certain.
    assert difference.high - difference.low < np.ptp(made.interval("both", cut)) / 3
    assert difference.p == pytest.approx(2 / 201)
    assert str(difference).startswith("+10.00 (9.")


def test_models_are_compared_at_the_same_draws() -> None:
    ours, theirs = evaluation(1.0), evaluation()
    difference = ours.difference(theirs, "alone", FULL)
    assert (difference.value, difference.p) == (1, pytest.approx(2 / 201))
    back = theirs.difference(ours, "alone", FULL)
    assert (back.value, back.low, back.high) == (-1, pytest.approx(-difference.high), pytest.approx(-difference.low))


def without_draws(made: Evaluation) -> Evaluation:
    return replace(made, draws={})


def other_data(made: Evaluation) -> Evaluation:
    return replace(made, tasks=tuple(replace(task, sha256="99") for task in made.tasks))


def of_one_layer(made: Evaluation) -> Evaluation:
    return replace(made, full=Cut(1, 8), shallows=())


def worthless(made: Evaluation) -> Evaluation:
    return replace(made, means=tuple(replace(score, value=0.0) for score in made.means))


def shallowless(made: Evaluation) -> Evaluation:
    return replace(made, means=tuple(score for score in made.means if score.cut.layers != 1), shallows=())


BAD: dict[str, tuple[Callable[[Evaluation], Evaluation], Callable[[Evaluation], object], str]] = {
    "no such name": (lambda e: e, lambda e: e.score("c", FULL), "nothing called 'c' was measured; choose one of a, al"),
    "no such cut": (
        lambda e: e,
        lambda e: e.score("a", Cut(3, 5)),
        "cut 3x5 was not measured on a; add it to the cuts",
    ),
    "no such documents": (
        lambda e: e,
        lambda e: e.score("a", FULL, 1),
        "cut 3x8 against documents of 1 layers was not",
    ),
    "no intervals": (
        unresampled,
        lambda e: e.interval("both", FULL),
        "no intervals, .*; evaluate with resamples",
    ),
    "no shallow intervals": (
        unresampled,
        lambda e: e.shallow_interval("both", 8),
        "no intervals, .*; evaluate with resamples",
    ),
    "no shallow draws": (
        without_draws,
        lambda e: e.shallow_difference(e, "both", 8),
        "needs draws, which are not saved to files",
    ),
    "no shallow cut": (shallowless, lambda e: e.shallow("both", 8), "cut 1x8 was not measured on both"),
    "no layers between": (of_one_layer, lambda e: e.shallow("both", 8), "a model of 1 layers has no shallow cuts"),
    "no share": (worthless, lambda e: e.share("both", Cut(1, 8)), "the full model scores 0 on both"),
    "no draws": (without_draws, lambda e: e.difference(e, "both", FULL), "needs draws, which are not saved to files"),
    "other data": (
        other_data,
        lambda e: e.difference(evaluation(), "both", FULL),
        "different data for both; evaluate",
    ),
    "other draws": (
        lambda e: e,
        lambda e: e.difference(evaluation(drawn=50), "both", FULL),
        "have 200 and 50 resamples; evaluate both with the same number",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_answered_is_one_sentence(name: str) -> None:
    spoil, ask, said = BAD[name]
    with pytest.raises(DemitasseError, match=said) as raised:
        ask(spoil(evaluation()))
    assert isinstance(raised.value, (DataError, CutError))
    assert "\n" not in str(raised.value)


def test_a_saved_evaluation_is_the_same_but_for_its_draws(tmp_path: Path) -> None:
    made = evaluation()
    made.save(tmp_path / "new" / "grid.json")
    again = read_evaluation(tmp_path / "new" / "grid.json")
    assert again == made
    assert again.interval("both", FULL) == made.interval("both", FULL)
    assert again.shallow_interval("both", 8) == made.shallow_interval("both", 8)
    assert again.draws == {}
    with pytest.raises(DataError, match="a difference needs draws"):
        again.difference(made, "both", FULL)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["grid.json"]


@given(
    value=st.floats(-100, 100),
    others=st.dictionaries(st.text(max_size=5), st.floats(0, 100), max_size=3),
    name=st.text(min_size=1, max_size=9),  # a folder may have a name that UTF-8 does not
)
def test_any_value_survives_the_file(
    value: float, others: dict[str, float], name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    others = {key.encode("utf-8", "replace").decode(): number for key, number in others.items()}
    score = Score(name, name, "spearman", Cut(1, 1), 0, value, None, value, others)
    facts = TaskFacts(name, name, "pairs", "spearman", {"pairs": 1}, "")
    made = replace(evaluation(), tasks=(facts,), scores=(score,), means=(score,), model=name)
    path = tmp_path_factory.mktemp("json") / "e.json"
    made.save(path)
    assert read_evaluation(path) == made


FILES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "cannot be read as an evaluation": lambda plain: json.dumps(plain)[:-9],
    "is not an evaluation of schema 1": lambda plain: json.dumps({**plain, "schema": 2}),
    "is not an evaluation": lambda plain: "[]",
    "not an evaluation of schema": lambda plain: json.dumps({**plain, "kind": "comparison"}),
    "has no field 'full'; evaluate again": lambda plain: json.dumps(
        {key: value for key, value in plain.items() if key != "full"}
    ),
    "full must be a cut such as 6x128, not '3'; evaluate again": lambda plain: json.dumps({**plain, "full": "3"}),
    r"has no field 'means\[0\].task'": lambda plain: json.dumps({**plain, "means": [{"cut": "1x1", "new": 1}]}),
}


@pytest.mark.parametrize("said", FILES)
def test_a_file_that_is_none_is_one_sentence(said: str, tmp_path: Path) -> None:
    path = tmp_path / "e.json"
    evaluation().save(path)
    path.write_text(FILES[said](json.loads(path.read_text())))
    with pytest.raises(DataError, match=said) as raised:
        read_evaluation(path)
    assert "\n" not in str(raised.value)


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot be read as an evaluation .*No such file"):
        read_evaluation(tmp_path / "nowhere.json")


def test_a_comparison_has_every_shared_difference() -> None:
    first, second = evaluation(model="first"), evaluation(2.0, model="second")
    small = replace(second, means=second.means[:1], shallows=(), model="small")
    plain = json.loads(json_text(comparison([first, second, small])))
    assert [entry["model"] for entry in plain["evaluations"]] == ["first", "second", "small"]
    assert len(plain["differences"]) == len(first.means) + 1
    entry = plain["differences"][0]
    assert (entry["model"], entry["to"], entry["group"], entry["cut"]) == ("second", "first", "both", "0x4")
    assert entry["value"] == 2
    assert (entry["low"], entry["high"]) == (pytest.approx(2), pytest.approx(2))  # the same draws of both
    assert entry["p"] < 0.05
    shallow = plain["shallow_differences"]
    assert [(entry["model"], entry["group"], entry["dims"]) for entry in shallow if entry["model"] == "second"] == [
        ("second", group, dims) for group in ("both", "alone") for dims in (4, 8)
    ]
    assert shallow[0]["value"] == pytest.approx(2)


def test_means_take_what_all_tasks_have() -> None:
    draws: dict[ScoreKey, Draws] = {}
    scores = [
        Score("a", "g", "ndcg@10", Cut(1, 1), 1, 10, others={"recall@10": 4.0, "recall@100": 8.0}),
        Score("b", "g", "spearman", Cut(1, 1), 1, 20, others={"recall@10": 6.0}),
    ]
    (mean,) = group_means(scores, draws)
    assert (mean.task, mean.value, mean.metric, mean.low, mean.others) == ("g", 15, "mean", None, {"recall@10": 5.0})
