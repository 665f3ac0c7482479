from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import zoo
from scipy import stats

from demitasse import Cut, Encoder, grid, load, read_pairs
from demitasse.evaluation.evaluate import dev_scores


def test_every_cut_is_scored_as_if_it_were_alone(encoder: Encoder) -> None:
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
        assert scores[str(cut)] == pytest.approx(100 * stats.spearmanr(cosines, gold).statistic, abs=0.5)


def test_a_dev_set_of_one_score_tells_nothing(encoder: Encoder) -> None:
    texts = zoo.sentences(8)
    data = read_pairs([(texts[place], texts[place + 4], 1.0) for place in range(4)])
    assert dev_scores(encoder, data.sources[0], [Cut(3, 32)]) == {"3x32": 0.0}


def test_each_side_has_its_prompt(model_folder: Callable[..., Path]) -> None:
    tiny = load(model_folder("BERT"), device="cpu")
    encoder = replace(tiny, reader=replace(tiny.reader, prompts={"query": "kan lor ", "document": "mist "}))
    left, right = zoo.sentences(40, seed=1), zoo.sentences(40, seed=2)
    gold = [float(number % 5) for number in range(40)]
    pairs, cut = read_pairs(list(zip(left, right, gold, strict=True))).sources[0], Cut(3, 32)
    found = {}
    for prompts, sides in {
        (): (None, None),
        ("query",): ("query", "query"),
        ("query", "document"): ("query", "document"),
        ("query", "document", "query"): ("query", "document"),
    }.items():
        cosines = (encoder.encode(left, prompt=sides[0]) * encoder.encode(right, prompt=sides[1])).sum(1)
        found[prompts] = dev_scores(encoder, pairs, [cut], prompts)["3x32"]
        assert found[prompts] == pytest.approx(100 * stats.spearmanr(cosines, gold).statistic, abs=0.5)
    assert len({*found.values()}) == 3
