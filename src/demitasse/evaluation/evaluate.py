"""`evaluate`: every asked cut of an encoder on every task, each text encoded once. No torch."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path

import numpy as np

from demitasse.cut import Cut, grid, usual_dims
from demitasse.data.pairs import Source
from demitasse.encoding.encoder import Encoder, Vectors
from demitasse.errors import CutError, DataError
from demitasse.evaluation.bootstrap import RESAMPLES, resampled_many
from demitasse.evaluation.embedding_cache import EmbeddingCache
from demitasse.evaluation.evaluation import Evaluation
from demitasse.evaluation.score_types import (
    Cell,
    Draws,
    Place,
    Score,
    TaskFacts,
    ends,
    group_means,
    mean_draws,
    shallow_means,
)
from demitasse.evaluation.task_files import read_tasks
from demitasse.evaluation.task_vectors import encode_sides, texts_of
from demitasse.evaluation.tasks import PairTask, Scores, SearchTask, Task, check_names
from demitasse.host.machine import versions
from demitasse.host.progress import progress_bar

Way = tuple[int, int, int]  # dims, layers of the documents, layers of the queries


def evaluate(
    encoder: Encoder,
    tasks: Sequence[str | Path | Task] = ("sample",),
    *,
    cuts: Sequence[Cut] | None = None,
    document_layers: Sequence[int] | None = None,
    cache: str | Path | None = None,
    resamples: int = RESAMPLES,
) -> Evaluation:
    """What `encoder` scores on `tasks` at each of `cuts`, from one pass over their texts.

    A task is "sample" (which comes with demitasse, and is no benchmark), the path of a file of scored pairs, of a
    folder in BEIR layout or of a folder with the seven STS sets, or a task made in Python. Without `cuts`, every number
    of layers is measured at the usual dims. With `document_layers`, queries at each cut are measured against documents
    at each of these numbers of layers; for pairs, that is the mean of both ways round. `cache` is a folder in which
    vectors are kept for the next time, and `resamples` how many draws make an interval; 0 makes none.

    >>> evaluation = evaluate(encoder, ["sample"], cuts=[Cut(1, 8), Cut(3, 32)])
    >>> evaluation.cuts
    (Cut(layers=1, dims=8), Cut(layers=3, dims=32))
    """
    begun = time.perf_counter()
    found, places = given_tasks(tasks), _places(encoder, cuts, document_layers)
    if isinstance(resamples, bool) or not isinstance(resamples, int) or resamples < 0:
        raise DataError(f"resamples is {resamples!r}; give a whole number such as {RESAMPLES}, or 0 for no intervals")
    open_cache = _caches(encoder, cache)
    scores: list[Score] = []
    draws: dict[Cell, Draws] = {}
    with progress_bar("evaluating", sum(map(len, chain(*(texts_of(task).values() for task in found))))) as advance:
        for task in found:  # one after the other: the vectors of only one are held in memory
            measured = measure(encoder, task, places, open_cache, partial(advance, note=task.name))
            drawn: dict[Way, Draws] = {}
            if resamples:
                drawn = dict(zip(measured, resampled_many(task, [*measured.values()], resamples), strict=True))
            for place in places:
                ways = _ways(task, place)
                value, others = float(np.mean([measured[way].main for way in ways])), measured[ways[0]].others
                low, high = ends([drawn.get(way) for way in ways])
                scores.append(Score(task.name, task.group, task.metric, *place, value, low, high, others))
                if resamples:
                    draws[scores[-1].cell] = mean_draws([drawn[way] for way in ways])
    return Evaluation(
        model=encoder.name,
        fingerprint=encoder.fingerprint,
        full=encoder.full,
        precision=encoder.precision,
        versions=versions(),
        tasks=tuple(_facts(task) for task in found),
        scores=tuple(scores),
        means=group_means(scores, draws),
        shallows=shallow_means(scores, draws, encoder.full),
        seconds=time.perf_counter() - begun,
        resamples=resamples,
        draws=draws,
    )


def measure(
    encoder: Encoder,
    task: Task,
    places: Sequence[Place],
    cache: Callable[[str | None], EmbeddingCache | None] = lambda prompt: None,
    advance: Callable[[int], None] = lambda count: None,
) -> dict[Way, Scores]:
    """What `task` scores for all ways of scoring it at `places`, each text encoded once and each way scored once."""
    ways = sorted({way for place in places for way in _ways(task, place)})
    queries, documents = {way[2] for way in ways}, {way[1] for way in ways}
    first, second = encode_sides(encoder, task, (queries, documents), cache, advance)
    scores: dict[Way, Scores] = {}
    for dims, of_dims in groupby(ways, itemgetter(0)):
        held: dict[int, Vectors] = {}  # queries are few; of documents, one number of layers at a time is held
        for number, here in groupby(of_dims, itemgetter(1)):
            right = second(number, dims)
            for way in here:
                if way[2] not in held:
                    held[way[2]] = first(way[2], dims)
                scores[way] = task.score(held[way[2]], right)
    return scores


def _ways(task: Task, place: Place) -> list[Way]:
    """What is scored at a place; pairs, which have no queries, both ways round where their sides differ in layers."""
    (layers, dims), documents = place
    ways = [(dims, documents, layers)]
    return [*ways, (dims, layers, documents)] if isinstance(task, PairTask) and layers != documents else ways


def given_tasks(given: Sequence[str | Path | Task]) -> list[Task]:
    """The tasks, those that are named read from their files."""
    if isinstance(given, (str, Path, PairTask, SearchTask)):
        raise DataError(f"tasks must be a list, not one {type(given).__name__}; wrap it: [task]")
    ready = [one for entry in given for one in ([entry] if isinstance(entry, Task) else read_tasks([entry]))]
    if not ready:
        raise DataError("no tasks were given; name at least one, such as ['sample']")
    check_names(ready)
    return ready


def _places(encoder: Encoder, cuts: Sequence[Cut] | None, document_layers: Sequence[int] | None) -> list[Place]:
    if not isinstance(encoder, Encoder):
        raise DataError(f"a {type(encoder).__name__} cannot be evaluated; give an encoder, such as demitasse.load(…)")
    full = encoder.full
    wanted = grid(range(full.layers + 1), usual_dims(full.dims)) if cuts is None else sorted({*cuts})
    if not wanted or (document_layers is not None and not document_layers):
        raise CutError("there is nothing to measure; name at least one cut, and one number of document layers")
    pairs = [(cut, layers) for cut in wanted for layers in sorted({*(document_layers or [cut.layers])})]
    for cut, layers in pairs:
        cut.within(full)
        Cut(layers, cut.dims).within(full)
    return pairs


def _caches(encoder: Encoder, folder: str | Path | None) -> Callable[[str | None], EmbeddingCache | None]:
    """The cache of each prompt, opened when it is first asked for."""
    opened: dict[str, EmbeddingCache] = {}

    def cache(prompt: str | None) -> EmbeddingCache | None:
        if folder is None:
            return None
        text = encoder.reader.prompt(prompt)
        if text not in opened:
            opened[text] = EmbeddingCache(Path(folder), encoder, prompt)
        return opened[text]

    return cache


def _facts(task: Task) -> TaskFacts:
    if isinstance(task, PairTask):
        return TaskFacts(task.name, task.group, "pairs", task.metric, {"pairs": len(task.left)}, task.sha256)
    counts = {
        "queries": len(task.queries),
        "documents": len(task.documents),
        "judgements": sum(map(len, task.judgements)),
    }
    return TaskFacts(task.name, task.group, "search", task.metric, counts, task.sha256)


def dev_scores(encoder: Encoder, pairs: Source, cuts: Sequence[Cut], prompts: Sequence[str] = ()) -> dict[str, float]:
    """Spearman's correlation x 100 between cosines and scores at each of `cuts`, from one pass over the texts.

    `prompts` are the names of those of the first and the second text of a pair; one alone is for both.
    """
    rows = [pairs[index] for index in range(len(pairs))]
    left, right = zip(*(row.texts for row in rows), strict=True)
    gold = np.array([row.score for row in rows], dtype=float)
    first, second = (prompts[0], prompts[min(1, len(prompts) - 1)]) if prompts else (None, None)
    task = PairTask("dev", "dev", left, right, gold, binary=False, prompts=(first, second))
    scores = measure(encoder, task, [(cut, cut.layers) for cut in cuts])
    return {str(cut): round(scores[cut.dims, cut.layers, cut.layers].main, 3) for cut in cuts}
