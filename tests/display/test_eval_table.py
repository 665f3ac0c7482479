from __future__ import annotations

import io
import re
from dataclasses import replace

import numpy as np
import pytest
from evaluations import evaluation, unresampled
from rich.console import Console

from demitasse.cut import Cut, grid
from demitasse.display.eval_table import show
from demitasse.evaluation.evaluation import Evaluation
from demitasse.evaluation.score_types import Difference


def shown(*evaluations: Evaluation, width: int = 100) -> str:
    file = io.StringIO()
    show(evaluations, Console(file=file, width=width))
    return file.getvalue()


def lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_layers_go_down_and_dims_across() -> None:
    made = evaluation()
    text = shown(made)
    assert "tiny  3x8 fp32, 8 cuts on 3 tasks in 1.5 s" in text
    assert "both: mean spearman x 100 of 2 tasks, 16 pairs\n" in text
    assert "alone: ndcg@10 x 100, 3 queries, 5 documents, 4 judgements\n" in text
    both, alone = text.split("alone: ")
    rows = lines(both)
    assert ["layers", "\\", "dims", "4", "8"] in rows
    low, high = made.interval("both", Cut(2, 8))
    (row,) = (row for row in rows if row[:1] == ["2"])
    assert row[3:] == ["78.5", f"±{(high - low) / 2:.1f}"]
    assert [row[0] for row in rows if row[:1] and row[0].isdecimal()] == ["3", "2", "1", "0"]
    halves = [f"±{np.ptp(made.shallow_interval('both', dims)) / 2:.1f}" for dims in (4, 8)]
    assert ["mean", "of", "1", "to", "2", "69.5", halves[0], "73.5", halves[1]] in rows
    assert "3x8: a 88.0, b 89.0" in both
    assert "3x8: mrr@10 45.0" in alone
    assert "± is half of a 95% interval, from 200 resamples" in alone


def grid_of(text: str) -> list[str]:
    """The lines of the first table."""
    return re.split(r"16\s+pairs\s*\n", text)[1].split("\n3x8:")[0].splitlines()


@pytest.mark.parametrize(("width", "beside"), [(120, True), (42, True), (38, True), (34, False), (31, False)])
def test_the_narrower_a_terminal_is_the_closer_intervals_come(width: int, beside: bool) -> None:
    made = evaluation()
    text = shown(made, width=width)
    table = grid_of(text)
    low, high = made.interval("both", Cut(2, 4))
    half = f"±{(high - low) / 2:.1f}"
    (row,) = (number for number, line in enumerate(table) if line.split()[:1] == ["2"])
    assert "74.5" in table[row]
    assert half in table[row if beside else row + 1]
    assert max(map(len, table)) <= width
    assert "± is half of a 95%" in text


@pytest.mark.parametrize("dims", [(32, 64, 128, 256, 384), (32, 64, 128, 256, 512, 768, 1024)])
def test_80_columns_are_enough_for_the_intervals_of_all_usual_dims(dims: tuple[int, ...]) -> None:
    made, cuts = evaluation(), grid(range(13), dims)
    mean = next(mean for mean in made.shallows if mean.task == "both")
    wide = {"low": 50.0, "high": 72.4}
    scores = tuple(replace(made.means[0], cut=cut, document_layers=cut.layers, **wide) for cut in cuts)
    shallows = tuple(replace(mean, dims=width, **wide) for width in dims)
    many = replace(made, full=cuts[-1], scores=scores, means=scores, shallows=shallows, tasks=made.tasks[:2])
    table = grid_of(shown(many, width=80).split("\n± is")[0])
    assert "".join(table).count("±11.2") == 14 * len(dims)
    assert max(map(len, table)) <= 80


def test_without_resamples_intervals_are_not_mentioned() -> None:
    assert "±" not in shown(unresampled(evaluation()))


def test_scores_are_shaded_from_the_worst_to_the_best() -> None:
    file = io.StringIO()
    console = Console(file=file, width=100, force_terminal=True, color_system="truecolor", record=True)
    show([evaluation()], console)
    page = console.export_html(inline_styles=True)
    colours = dict(re.findall(r"background-color: (#\w+)\D*> (\d+\.\d) <", page)[::-1])
    scores = {score: colour for colour, score in colours.items()}
    assert scores["88.5"] != scores["54.5"]


def test_cuts_that_were_not_measured_stay_empty() -> None:
    made = evaluation()
    means = tuple(score for score in made.means if score.cut not in (Cut(1, 4), Cut(0, 8)))
    shallows = tuple(mean for mean in made.shallows if mean.dims == 8)
    rows = lines(shown(unresampled(replace(made, means=means, shallows=shallows))).split("alone:")[0])
    assert ["1", "68.5"] in rows
    assert ["0", "54.5"] in rows
    assert ["mean", "of", "1", "to", "2", "73.5"] in rows


@pytest.mark.parametrize(("kind", "corner"), [("both", "one side \\ other side"), ("alone", "queries \\ documents")])
def test_layers_of_both_sides_are_a_matrix_for_each_number_of_dims(kind: str, corner: str) -> None:
    made = evaluation()
    means = tuple(
        replace(score, document_layers=layers, value=score.value + layers / 10)
        for score in made.means
        for layers in (0, 3)
        if score.group == kind
    )
    tasks = tuple(task for task in made.tasks if task.group == kind)
    text = shown(replace(made, tasks=tasks, means=means), width=44)
    first, second = text.split("at 4 dims")[1].split("at 8 dims")
    assert corner in first
    assert "mean of" not in text
    value = made.score(kind, Cut(2, 8))
    assert ["2", f"{value:.1f}", f"{value + 0.3:.1f}"] in [
        [cell for cell in row if cell[0] != "±"] for row in lines(second) if row
    ]


def columns(difference: Difference) -> list[str]:
    """The words of a difference in the table."""
    value, low, high = (f"{number:+.2f}" for number in (difference.value, difference.low, difference.high))
    return [value, low, "to", high, f"{difference.p:.3f}"]


def test_models_are_compared_with_the_first() -> None:
    first, second = evaluation(model="first"), evaluation(0.5, seed=3, model="second")
    text = shown(first, second)
    assert text.startswith("first  3x8 fp32")
    assert "second  3x8 fp32" in text
    assert "; difference from first" in text
    rows = lines(text.split("alone: ")[0])
    difference = second.difference(first, "both", Cut(2, 8))
    (row,) = (row for row in rows if row[:2] == ["2x8", "second"])
    assert row[2] == "79.0"
    assert row[4:] == columns(difference)
    assert len([row for row in rows if row[1:2] == ["first"]]) == 8
    difference = second.shallow_difference(first, "both", 4)
    (row,) = (row for row in rows if row[:3] == ["mean", "1-2x4", "second"])
    assert row[3] == f"{second.shallow('both', 4):.1f}"
    assert row[5:] == columns(difference)
    assert [row[1] for row in rows if row[:1] == ["mean"] and row[2] == "first"] == ["1-2x8", "1-2x4"]


def test_models_of_different_sizes_are_compared_at_full_size_and_at_shared_cuts() -> None:
    first = evaluation(model="first")
    small = [score for score in evaluation(1.0).means if score.cut in grid([0, 1, 2], [4])]
    second = replace(evaluation(1.0), full=Cut(2, 4), means=tuple(small), shallows=(), model="second")
    rows = lines(shown(first, second).split("alone: ")[0])
    cuts = [tuple(row[:2]) for row in rows if row[1:2] in (["first"], ["second"])]
    assert cuts[:2] == [("3x8", "first"), ("2x4", "second")]
    assert [cut for cut, name in cuts[2:] if name == "second"] == ["2x4", "1x4", "0x4"]
    whole = next(row for row in rows if row[:2] == ["2x4", "second"])
    assert whole[4] == f"{second.score('both', Cut(2, 4)) - first.score('both', Cut(3, 8)):+.2f}"


def test_only_some_of_many_cuts_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demitasse.display.eval_table.MANY", 3)
    made = evaluation()
    more = tuple(replace(score, cut=Cut(score.cut.layers, 2)) for score in made.means if score.cut.dims == 4)
    narrow = {(task, Cut(layers, 2), layers): drawn for (task, cut, layers), drawn in made.draws.items()}
    made = replace(made, means=(*made.means, *more), draws={**made.draws, **narrow})
    text = shown(made, made)
    cuts = {row[0] for row in lines(text) if row and row[0][1:2] == "x"}
    assert cuts == {str(cut) for cut in grid([0, 1, 2, 3], [2, 8])}
    assert "4 more cuts were measured; show them with --layers and --dims" in text


def test_without_resamples_a_difference_has_no_interval() -> None:
    bare = unresampled(evaluation())
    rows = lines(shown(bare, replace(bare, model="other")))
    assert ["3x8", "other", "88.5", "+0.00"] in rows


@pytest.mark.parametrize("width", [60, 80, 120])
def test_models_with_a_long_path_in_common_are_told_apart(width: int) -> None:
    start = "/models/of/many/experiments/that-share-a-long-start/2026/run-"
    first, second = evaluation(model=f"{start}17/final"), evaluation(0.5, seed=3, model=f"{start}18/final")
    text = shown(first, second, width=width)
    rows = [line for line in text.split("alone: ")[0].splitlines() if " 2x8 " in line]
    assert [sum(name in row for row in rows) for name in ("run-17/", "run-18/")] == [1, 1]
    assert f"{second.difference(first, 'both', Cut(2, 8)).p:.3f}" in rows[1]
    assert max(map(len, text.splitlines())) <= width


def test_an_evaluation_without_the_scores_of_its_tasks_is_shown() -> None:
    assert "layers" in shown(replace(evaluation(), scores=()))


@pytest.mark.parametrize("document_layers", [None, 1])
def test_an_evaluation_without_the_mean_of_a_group_is_shown(document_layers: int | None) -> None:
    made = evaluation()
    means = [score for score in made.means if score.group == "both"]
    if document_layers is not None:
        means = [replace(score, document_layers=document_layers) for score in means]
    text = shown(replace(made, means=tuple(means), shallows=()))
    assert "both: " in text
    assert "alone: " in text
