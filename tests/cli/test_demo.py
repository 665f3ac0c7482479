from __future__ import annotations

import io
import re
from pathlib import Path

from profiles import made_profile
from rich.console import Console

from demitasse import MeasureOptions
from demitasse.cli.demo import BUDGETS, CUTS, NEXT, QUERIES, show
from demitasse.cli.demo import _recommend as recommend
from demitasse.host.bundled import corpus


def test_the_corpus_is_large_and_has_no_sentence_twice() -> None:
    assert len(corpus()) == len(set(corpus())) >= 200


def test_it_searches_measures_recommends_and_reports(tmp_path: Path) -> None:
    out, page = io.StringIO(), tmp_path / "report.html"
    show(console=Console(file=out, width=80), page=page, options=MeasureOptions(cuts=CUTS, rounds=2, seconds=1))
    shown = out.getvalue()
    for query in QUERIES:
        assert f"\n{query}\n" in shown
    for cut in CUTS:
        assert shown.count(f"\n  {cut!s:>6}  ") == len(QUERIES)
        assert re.search(rf"^ {cut} .*%", shown, flags=re.MULTILINE)
    advice = shown.partition("the best cut for each of three budgets")[2]
    for words in ("97% quality", "64 bytes"):  # 2 ms can be too little for a busy machine
        assert re.search(rf"^ {words} +\dx\d+ +int8 ", advice, flags=re.MULTILINE)
    assert f"{page} has all 20 rows" in shown
    assert NEXT in shown
    lines = [line for line in shown.splitlines() if str(page) not in line and NEXT not in line]
    assert max(map(len, lines)) <= 80
    assert "6x384" in page.read_text(encoding="utf-8")


def test_a_budget_that_nothing_fits_is_told_and_the_others_are_answered() -> None:
    out = io.StringIO()
    slow = made_profile(slower=10)
    recommend(slow, Console(file=out, width=300))
    shown = out.getvalue()
    assert "under 2 ms: nothing measured has p95 latency of at most 2 ms; the nearest is 1x128 int8" in shown
    assert re.search(r"^ 64 bytes +3x128 +fp32 +binary", shown, flags=re.MULTILINE)
    assert set(BUDGETS) == {"under 2 ms", "97% quality", "64 bytes"}
