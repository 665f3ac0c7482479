"""Evaluations as JSON files; docs/evaluation.md explains every field. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from demitasse.cut import Cut
from demitasse.errors import CutError, DataError
from demitasse.evaluation.evaluation import Evaluation
from demitasse.evaluation.score_types import Score, Shallow, TaskFacts
from demitasse.host.json_files import read_result, with_header


def read_evaluation(path: str | Path) -> Evaluation:
    """Read an evaluation from a file. Only `difference` does not work on it, since files do not have the draws.

    >>> import demitasse as dt
    >>> dt.evaluate(encoder, ["sample"], cuts=[dt.Cut(3, 32)]).save(out)
    >>> read_evaluation(out).full
    Cut(layers=3, dims=32)
    """
    plain = read_result(path, "evaluation", "evaluate")
    try:
        return _evaluation(plain)
    except (KeyError, TypeError, AttributeError, CutError) as problem:
        raise DataError(f"{path} is incomplete ({problem!r}); evaluate again") from problem


def as_plain(evaluation: Evaluation) -> dict[str, Any]:
    """Everything but the draws, as plain JSON values."""
    plain = {
        "model": evaluation.model,
        "fingerprint": evaluation.fingerprint,
        "full": str(evaluation.full),
        "precision": evaluation.precision,
        "versions": dict(evaluation.versions),
        "seconds": round(evaluation.seconds, 3),
        "resamples": evaluation.resamples,
        "tasks": [asdict(task) for task in evaluation.tasks],
        "means": [asdict(score) | {"cut": str(score.cut)} for score in evaluation.means],
        "scores": [asdict(score) | {"cut": str(score.cut)} for score in evaluation.scores],
        "shallow": [asdict(score) for score in evaluation.shallows],
    }
    return with_header("evaluation", plain)


def comparison(evaluations: Sequence[Evaluation]) -> dict[str, Any]:
    """Several evaluations, and how far each of the others is above the first wherever both have a score."""
    first, *others = evaluations
    differences, shallow = [], []
    for other in others if first.resamples else ():
        models = {"model": other.model, "to": first.model}
        shared = {score.key for score in other.means}
        for group, cut, layers in (score.key for score in first.means if score.key in shared):
            difference = other.difference(first, group, cut, document_layers=layers)
            differences.append(
                models | {"group": group, "cut": str(cut), "document_layers": layers} | asdict(difference)
            )
        means = {(one.task, one.dims) for one in other.shallows}
        for group, dims in ((one.task, one.dims) for one in first.shallows if one.task in first.groups):
            if (group, dims) not in means:
                continue
            difference = other.shallow_difference(first, group, dims)
            shallow.append(models | {"group": group, "dims": dims} | asdict(difference))
    everything = [as_plain(evaluation) for evaluation in evaluations]
    plain = {"evaluations": everything, "differences": differences, "shallow_differences": shallow}
    return with_header("comparison", plain)


def _evaluation(plain: dict[str, Any]) -> Evaluation:
    scores, means = (
        tuple(Score(**{**entry, "cut": Cut.parse(entry["cut"])}) for entry in plain[kind])
        for kind in ("scores", "means")
    )
    unchanged = ("model", "fingerprint", "precision", "versions", "seconds", "resamples")
    return Evaluation(
        full=Cut.parse(plain["full"]),
        tasks=tuple(TaskFacts(**entry) for entry in plain["tasks"]),
        scores=scores,
        means=means,
        shallows=tuple(Shallow(**entry) for entry in plain["shallow"]),
        **{name: plain[name] for name in unchanged},
    )
