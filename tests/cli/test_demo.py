from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import RunCommand
from profiles import made_profile
from rich.console import Console

from demitasse import Cut, MeasureOptions, Profile, measure
from demitasse.cli.demo import BUDGETS, CUTS, NEXT, QUERIES, show
from demitasse.cli.demo import _recommend as recommend
from demitasse.host.bundled import corpus


def test_the_corpus_is_large_and_has_no_duplicates() -> None:
    assert len(corpus()) == len(set(corpus())) >= 200


def test_it_searches_measures_recommends_and_reports(tmp_path: Path) -> None:
    out, page = io.StringIO(), tmp_path / "report.html"
    show(QUERIES, Console(file=out, width=80), page, MeasureOptions(cuts=CUTS, rounds=2, seconds=1))
    shown = out.getvalue()
    for query in QUERIES:
        assert f"\n{query}\n" in shown
    for cut in CUTS:
        assert shown.count(f"\n  {cut!s:>6}  ") == len(QUERIES)
        assert re.search(rf"^ {cut} .*%", shown, flags=re.MULTILINE)
    advice = shown.partition("the best cut for each of three budgets")[2]
    for words in ("97% quality", "64 bytes"):  # on a busy machine nothing may fit 2 ms
        assert re.search(rf"^ {words} +\dx\d+ +int8 ", advice, flags=re.MULTILINE)
    assert f"{page} has all 20 rows" in shown
    assert NEXT in shown
    assert "6x384" in page.read_text(encoding="utf-8")


def test_a_budget_that_nothing_fits_is_explained_and_the_others_are_answered() -> None:
    out = io.StringIO()
    recommend(made_profile(slower=10), Console(file=out, width=300))
    shown = out.getvalue()
    assert re.search(r"^under 2 ms: .* 2 ms; the nearest is 1x128 int8", shown, flags=re.MULTILINE)
    assert re.search(r"^ 64 bytes +3x128 +fp32 +binary", shown, flags=re.MULTILINE)
    assert set(BUDGETS) == {"under 2 ms", "97% quality", "64 bytes"}


def test_the_command_searches_for_its_arguments(
    run: RunCommand, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    measure_all = measure

    def measure_one(options: MeasureOptions) -> Profile:
        return measure_all(options=replace(options, cuts=[Cut(0, 32)], rounds=2, seconds=1))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("demitasse.planning.measure.measure", measure_one)
    ran = run("demo", "a knocking noise in the heating")
    assert ran.code == 0, ran.err
    assert "6x384  Our heating has been making a knocking noise since yesterday." in ran.out
    assert "100.0%" in ran.out
    assert [path.name for path in tmp_path.iterdir()] == ["demitasse-report.html"]
    assert f"{tmp_path / 'demitasse-report.html'} has all 8 rows" in ran.out
    refused = run("demo", "--report", "report.txt")
    assert (refused.code, refused.out) == (2, "")
