"""Evaluations as JSON files; docs/evaluation.md explains every field. No torch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from demitasse._version import __version__
from demitasse.atomic import new_file
from demitasse.cut import Cut
from demitasse.cut_scores import Score, Shallow, TaskFacts
from demitasse.errors import CutError, DataError, reason
from demitasse.evaluation import Evaluation

SCHEMA = 1


def save(plain: dict[str, Any], path: str | Path) -> None:
    """Write plain values to a JSON file, whole or not at all."""
    with new_file(Path(path)) as file:
        file.write(written(plain).encode())


def written(plain: dict[str, Any]) -> str:
    """Plain values as JSON for people to read."""
    return json.dumps(plain, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def read_evaluation(path: str | Path) -> Evaluation:
    """The evaluation that a file holds. Only `difference` does not work on it, for the draws are not in the file.

    >>> import demitasse as dt
    >>> dt.evaluate(encoder, ["sample"], cuts=[dt.Cut(3, 32)]).save(out)
    >>> read_evaluation(out).full
    Cut(layers=3, dims=32)
    """
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise DataError(
            f"{path} cannot be read as an evaluation ({reason(problem)}); give a file it was saved to"
        ) from None
    schema = found.get("schema") if isinstance(found, dict) and found.get("kind") == "evaluation" else None
    if schema != SCHEMA:
        raise DataError(
            f"{path} is no evaluation of schema {SCHEMA}, which is what demitasse {__version__} reads; evaluate again"
        )
    try:
        return _evaluation(found)
    except (KeyError, TypeError, AttributeError, CutError) as problem:
        raise DataError(f"{path} lacks something ({problem!r}); evaluate again") from problem


def as_plain(evaluation: Evaluation) -> dict[str, Any]:
    """Everything but the draws, as values that JSON has."""
    return {
        "schema": SCHEMA,
        "kind": "evaluation",
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


def comparison(evaluations: Sequence[Evaluation]) -> dict[str, Any]:
    """Several evaluations, and how far each of the others is above the first at the cells they share."""
    first, *others = evaluations
    differences, shallow = [], []
    for other in others if first.resamples else ():
        named = {"model": other.model, "to": first.model}
        shared = {score.cell for score in other.means}
        for group, cut, layers in (score.cell for score in first.means if score.cell in shared):
            found = other.difference(first, group, cut, document_layers=layers)
            differences.append(named | {"group": group, "cut": str(cut), "document_layers": layers} | asdict(found))
        means = {(one.task, one.dims) for one in other.shallows}
        for group, dims in ((one.task, one.dims) for one in first.shallows if one.task in first.groups):
            if (group, dims) not in means:
                continue
            found = other.shallow_difference(first, group, dims)
            shallow.append(named | {"group": group, "dims": dims} | asdict(found))
    return {
        "schema": SCHEMA,
        "kind": "comparison",
        "evaluations": [as_plain(evaluation) for evaluation in evaluations],
        "differences": differences,
        "shallow_differences": shallow,
    }


def _evaluation(found: dict[str, Any]) -> Evaluation:
    scores, means = (
        tuple(Score(**{**entry, "cut": Cut.parse(entry["cut"])}) for entry in found[kind])
        for kind in ("scores", "means")
    )
    same = ("model", "fingerprint", "precision", "versions", "seconds", "resamples")
    return Evaluation(
        full=Cut.parse(found["full"]),
        tasks=tuple(TaskFacts(**entry) for entry in found["tasks"]),
        scores=scores,
        means=means,
        shallows=tuple(Shallow(**entry) for entry in found["shallow"]),
        **{name: found[name] for name in same},
    )
