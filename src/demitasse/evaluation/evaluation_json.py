"""Evaluations as JSON files; docs/evaluation.md explains every field. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from demitasse.errors import DataError
from demitasse.evaluation.evaluation import Evaluation
from demitasse.evaluation.score_types import Score, Shallow, TaskFacts
from demitasse.host.fields import Fields
from demitasse.host.json_files import read_result, with_header


def read_evaluation(path: str | Path) -> Evaluation:
    """Read an evaluation from a file. Only `difference` does not work on it, since files do not have the draws.

    >>> import demitasse as dt
    >>> dt.evaluate(encoder, ["sample"], cuts=[dt.Cut(3, 32)]).save(out)
    >>> read_evaluation(out).full
    Cut(layers=3, dims=32)
    """
    return _evaluation(Fields(read_result(path, "evaluation", "evaluate"), path, "evaluate again", DataError))


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


def _evaluation(fields: Fields) -> Evaluation:
    return Evaluation(
        model=fields.name("model"),
        fingerprint=fields.text("fingerprint"),
        full=fields.cut("full"),
        precision=fields.text("precision"),
        versions=fields.text_of("versions"),
        tasks=tuple(map(_task, fields.each("tasks"))),
        scores=tuple(map(_score, fields.each("scores"))),
        means=tuple(map(_score, fields.each("means"))),
        shallows=tuple(map(_shallow, fields.each("shallow"))),
        seconds=fields.number("seconds", least=0),
        resamples=fields.whole("resamples"),
    )


def _task(entry: Fields) -> TaskFacts:
    name, group, kind, metric = (entry.text(field) for field in ("name", "group", "kind", "metric"))
    return TaskFacts(name, group, kind, metric, entry.whole_of("counts"), entry.text("sha256"))


def _score(entry: Fields) -> Score:
    return Score(
        task=entry.text("task"),
        group=entry.text("group"),
        metric=entry.text("metric"),
        cut=entry.cut("cut"),
        document_layers=entry.whole("document_layers"),
        value=entry.number("value"),
        low=_known(entry, "low"),
        high=_known(entry, "high"),
        others=entry.number_of("others"),
    )


def _shallow(entry: Fields) -> Shallow:
    ends = _known(entry, "low"), _known(entry, "high")
    return Shallow(entry.text("task"), entry.whole("dims", least=1), entry.number("value"), *ends)


def _known(entry: Fields, name: str) -> float | None:
    return entry.number(name) if entry.has(name) else None
