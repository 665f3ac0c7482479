from __future__ import annotations

import io

from rich.console import Console

from demitasse import Cut, load
from demitasse.corpus import corpus
from demitasse.demo import CUTS, QUERIES, measure, show


def test_the_corpus_is_large_and_has_no_sentence_twice() -> None:
    assert len(corpus()) == len(set(corpus())) >= 200


def test_the_full_cut_agrees_with_itself_and_smaller_ones_cost_less() -> None:
    cuts = (Cut(6, 384), Cut(6, 256), Cut(0, 32))
    full, wide, small = measure(load(), corpus(), cuts, rounds=1)
    assert full.same_first == full.shared_neighbours == 1
    assert 1 > wide.shared_neighbours > small.shared_neighbours > 0.05
    assert full.model_bytes > small.model_bytes
    assert small.texts_a_second > 3 * full.texts_a_second


def test_every_cut_answers_every_question() -> None:
    out = io.StringIO()
    show(console=Console(file=out, width=100))
    shown = out.getvalue()
    for query in QUERIES:
        assert f"\n{query}\n" in shown
    for cut in CUTS:
        assert shown.count(f"\n  {cut!s:>6}  ") == len(QUERIES)
    assert max(map(len, shown.splitlines())) <= 100
