"""`evaluate`: every requested cut of an encoder on every task, each text encoded once. No torch.

`dev_scores` is the same for the scored pairs that a training run is watched with.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np

from demitasse.arguments import path, several, whole
from demitasse.cut import Cut, cuts_of, grid, usual_dims
from demitasse.data.pairs import Source
from demitasse.encoding.checked_encoder import checked_encoder
from demitasse.encoding.encoder import Encoder
from demitasse.encoding.vectors import Vectors
from demitasse.errors import CutError, DataError
from demitasse.evaluation.bootstrap import MOST_RESAMPLES, RESAMPLES, resampled_many
from demitasse.evaluation.embedding_cache import EmbeddingCache
from demitasse.evaluation.evaluation import Evaluation
from demitasse.evaluation.score_types import (
    Draws,
    Score,
    ScoreKey,
    SideCuts,
    TaskFacts,
    group_means,
    mean_draws,
    mean_interval,
    shallow_means,
)
from demitasse.evaluation.task_files import read_tasks
from demitasse.evaluation.task_vectors import encode_sides, texts_of
from demitasse.evaluation.tasks import PairTask, Scores, SearchTask, Task, check_names
from demitasse.host.machine import versions
from demitasse.host.progress import Advance, progress_bar

OpenCache = Callable[[str | None], EmbeddingCache | None]  # the cache for a prompt


class Combination(NamedTuple):
    """The sizes of the vectors that a task is scored with; sorts so that document vectors are reused."""

    dims: int
    document_layers: int
    query_layers: int


def evaluate(
    encoder: Encoder,
    tasks: Sequence[str | Path | Task] = ("sample",),
    *,
    cuts: Sequence[Cut | str] | None = None,
    document_layers: Sequence[int] | None = None,
    cache: str | Path | None = None,
    resamples: int = RESAMPLES,
) -> Evaluation:
    """Score `encoder` on `tasks` at each of `cuts`, from one pass over their texts.

    A task is "sample" (shipped with demitasse; not a benchmark), the path of a file of scored pairs, of a folder in
    BEIR layout or of a folder with the seven STS sets, or a task built in Python. Without `cuts`, every number of
    layers is scored at the usual dims. With `document_layers`, queries at each cut are scored against documents at each
    of these numbers of layers; for pairs, the score is the mean of both directions. `cache` is a folder that stores
    vectors for later runs. `resamples` is the number of bootstrap draws behind each interval; 0 means no intervals.

    >>> evaluation = evaluate(encoder, ["sample"], cuts=[Cut(1, 8), Cut(3, 32)])
    >>> evaluation.cuts
    (Cut(layers=1, dims=8), Cut(layers=3, dims=32))
    """
    started = time.perf_counter()
    checked_encoder(encoder)
    resolved, side_cuts = resolve_tasks(tasks), _side_cuts(encoder, cuts, document_layers)
    resamples = whole("resamples", resamples, 0)
    if resamples > MOST_RESAMPLES:
        raise DataError(f"resamples must be at most {MOST_RESAMPLES:,}, not {resamples}; {RESAMPLES:,} are usual")
    open_cache = _cache_opener(encoder, cache)
    scores: list[Score] = []
    draws: dict[ScoreKey, Draws] = {}
    with progress_bar("evaluating", sum(map(len, chain(*(texts_of(task).values() for task in resolved))))) as advance:
        for task in resolved:  # one after the other: only one task's vectors are in memory
            by_combination = score_task(encoder, task, side_cuts, open_cache, partial(advance, note=task.name))
            drawn: dict[Combination, Draws] = {}
            if resamples:
                resampled = resampled_many(task, [*by_combination.values()], resamples)
                drawn = dict(zip(by_combination, resampled, strict=True))
            for sides in side_cuts:
                combinations = _combinations(task, sides)
                value = float(np.mean([by_combination[one].main for one in combinations]))
                others = by_combination[combinations[0]].others
                low, high = mean_interval([drawn.get(one) for one in combinations])
                scores.append(Score(task.name, task.group, task.metric, *sides, value, low, high, others))
                if resamples:
                    draws[scores[-1].key] = mean_draws([drawn[one] for one in combinations])
    return Evaluation(
        model=encoder.name,
        fingerprint=encoder.fingerprint,
        full=encoder.full,
        precision=encoder.precision,
        versions=versions(),
        tasks=tuple(_facts(task) for task in resolved),
        scores=tuple(scores),
        means=group_means(scores, draws),
        shallows=shallow_means(scores, draws, encoder.full),
        seconds=time.perf_counter() - started,
        resamples=resamples,
        draws=draws,
    )


def dev_scores(encoder: Encoder, pairs: Source, cuts: Sequence[Cut], prompts: Sequence[str] = ()) -> dict[str, float]:
    """Spearman's correlation x 100 between cosines and scores at each of `cuts`, from one pass over the texts.

    `prompts` names the prompts of the first and the second text of a pair; a single name is used for both.
    """
    examples = [pairs[index] for index in range(len(pairs))]
    left, right = zip(*(example.texts for example in examples), strict=True)
    gold = np.array([example.score for example in examples], dtype=float)
    first, second = (prompts[0], prompts[min(1, len(prompts) - 1)]) if prompts else (None, None)
    task = PairTask("dev", "dev", left, right, gold, binary=False, prompts=(first, second))
    scores = score_task(encoder, task, [(cut, cut.layers) for cut in cuts])
    return {str(cut): round(scores[Combination(cut.dims, cut.layers, cut.layers)].main, 3) for cut in cuts}


def resolve_tasks(given: Sequence[str | Path | Task]) -> list[Task]:
    """The tasks themselves: names and paths are read from files, task objects are taken as they are."""
    if isinstance(given, (str, Path, PairTask, SearchTask)) or not isinstance(given, Iterable):
        raise DataError(f"tasks must be a list, not one {type(given).__name__}; wrap it: [task]")
    resolved = [task for entry in given for task in ([entry] if isinstance(entry, Task) else read_tasks([entry]))]
    if not resolved:
        raise DataError("no tasks were given; name at least one, such as ['sample']")
    check_names(resolved)
    return resolved


def score_task(
    encoder: Encoder,
    task: Task,
    side_cuts: Sequence[SideCuts],
    open_cache: OpenCache = lambda prompt: None,
    advance: Advance = lambda count: None,
) -> dict[Combination, Scores]:
    """Score `task` at every combination that `side_cuts` need, encoding each text and scoring each combination once."""
    combinations = sorted({one for sides in side_cuts for one in _combinations(task, sides)})
    layers = {one.query_layers for one in combinations}, {one.document_layers for one in combinations}
    queries, documents = encode_sides(encoder, task, layers, open_cache, advance)
    scores: dict[Combination, Scores] = {}
    for dims, of_dims in groupby(combinations, lambda one: one.dims):
        # Queries are few and stay in memory; of the documents, one number of layers at a time does.
        query_vectors: dict[int, Vectors] = {}
        for document_layers, same_documents in groupby(of_dims, lambda one: one.document_layers):
            document_vectors = documents(document_layers, dims)
            for one in same_documents:
                if one.query_layers not in query_vectors:
                    query_vectors[one.query_layers] = queries(one.query_layers, dims)
                scores[one] = task.score(query_vectors[one.query_layers], document_vectors)
    return scores


def _combinations(task: Task, sides: SideCuts) -> list[Combination]:
    """What to score for `sides`; pairs, which have no queries, in both directions if their sides differ in layers."""
    (layers, dims), documents = sides
    forward = Combination(dims, documents, layers)
    if isinstance(task, PairTask) and layers != documents:
        return [forward, Combination(dims, layers, documents)]
    return [forward]


def _side_cuts(
    encoder: Encoder, cuts: Sequence[Cut | str] | None, document_layers: Sequence[int] | None
) -> list[SideCuts]:
    full = encoder.full
    wanted = grid(range(full.layers + 1), usual_dims(full.dims)) if cuts is None else sorted({*cuts_of(cuts)})
    documents = None if document_layers is None else several("document_layers", document_layers, whole)
    if documents == ():
        raise CutError("there is nothing to measure; name at least one number of document layers")
    pairs = [(cut, layers) for cut in wanted for layers in sorted({*(documents or [cut.layers])})]
    for cut, layers in pairs:
        cut.within(full)
        Cut(layers, cut.dims).within(full)
    return pairs


def _cache_opener(encoder: Encoder, folder: str | Path | None) -> OpenCache:
    """Opens the cache of each prompt when it is first needed."""
    opened: dict[str, EmbeddingCache] = {}
    kept = None if folder is None else path("cache", folder)

    def open_cache(prompt: str | None) -> EmbeddingCache | None:
        if kept is None:
            return None
        text = encoder.reader.prefix(prompt)
        if text not in opened:
            opened[text] = EmbeddingCache(kept, encoder, prompt)
        return opened[text]

    return open_cache


def _facts(task: Task) -> TaskFacts:
    if isinstance(task, PairTask):
        return TaskFacts(task.name, task.group, "pairs", task.metric, {"pairs": len(task.left)}, task.sha256)
    counts = {
        "queries": len(task.queries),
        "documents": len(task.documents),
        "judgements": sum(map(len, task.judgements)),
    }
    return TaskFacts(task.name, task.group, "search", task.metric, counts, task.sha256)
