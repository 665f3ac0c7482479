"""Handmade evaluations, without a model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from demitasse import Cut, Evaluation
from demitasse.evaluation.score_types import Score, TaskFacts, group_means, shallow_means

FULL = Cut(3, 8)
CUTS = [Cut(layers, dims) for layers in (0, 1, 2, 3) for dims in (4, 8)]


def evaluation(shift: float = 0.0, *, seed: int = 0, drawn: int = 200, model: str = "tiny") -> Evaluation:
    """Two tasks in a group and one alone; scores grow with layers, dims and `shift`."""
    generator = np.random.default_rng(seed)
    facts = [
        TaskFacts("a", "both", "pairs", "spearman", {"pairs": 9}, "11"),
        TaskFacts("b", "both", "pairs", "spearman", {"pairs": 7}, "22"),
        TaskFacts("alone", "alone", "search", "ndcg@10", {"queries": 3, "documents": 5, "judgements": 4}, "33"),
    ]
    scores, draws = [], {}
    for number, task in enumerate(facts):
        noise = generator.normal(size=drawn)
        for cut in CUTS:
            value = 50 + 10 * cut.layers + cut.dims + number + shift
            key = (task.name, cut, cut.layers)
            draws[key] = value + noise + generator.normal(size=drawn) / 10
            low, high = np.quantile(draws[key], [0.025, 0.975])
            others = {"mrr@10": value / 2} if task.kind == "search" else {}
            scores.append(
                Score(task.name, task.group, task.metric, cut, cut.layers, value, float(low), float(high), others)
            )
    return Evaluation(
        model=model,
        fingerprint="f" * 64,
        full=FULL,
        precision="fp32",
        versions={"demitasse": "0"},
        tasks=tuple(facts),
        scores=tuple(scores),
        means=group_means(scores, draws),
        shallows=shallow_means(scores, draws, FULL),
        seconds=1.5,
        resamples=drawn,
        draws=draws,
    )


def unresampled(made: Evaluation) -> Evaluation:
    means = tuple(replace(score, low=None, high=None) for score in made.means)
    shallows = tuple(replace(mean, low=None, high=None) for mean in made.shallows)
    return replace(made, means=means, shallows=shallows, draws={}, resamples=0)
