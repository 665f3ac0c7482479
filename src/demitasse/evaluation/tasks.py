"""What an encoder is scored on: pairs of texts with human scores, and questions over documents. No torch.

A task has its texts and scores vectors of them; it knows nothing about encoders or files.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import NamedTuple

import numpy as np

from demitasse.errors import DataError
from demitasse.evaluation.metrics import Values, all_found, average_precision, ndcg, recall, reciprocal_rank, spearman

SCALE = 100  # scores are as usually printed: a Spearman correlation of 0.788 is 78.8
RANKED = 100  # documents of a ranking that count
_RECALL_AT = (1, 5, 10, 20, 50, 100)
_ALL_AT = (5, 10, 20)
_ANSWER_AT = (5, 10)
_BLOCK = 1 << 24  # cosines of queries x documents that are in memory at a time


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of vectors on a task, x 100."""

    main: float  # the task's metric
    others: dict[str, float]  # further metrics, by name
    units: Values  # what the bootstrap draws from: the cosine of each pair, or the nDCG (0 to 1) of each query


class Side(NamedTuple):
    """The texts of one side of a task, and the name of their prompt."""

    texts: tuple[str, ...]
    prompt_name: str | None


@dataclass(frozen=True, eq=False)
class PairTask:
    """Pairs of texts and a human score for each: how similar they are or, if `binary`, whether they match at all.

    >>> task = PairTask("cups", "cups", ("a cup", "a cup"), ("a mug", "a bus"), np.array([5.0, 0.0]), binary=False)
    >>> task.metric
    'spearman'
    >>> task.score(left=np.eye(2), right=np.eye(2)[[0, 0]]).main
    100.0
    """

    name: str
    group: str  # tasks of one group are reported by their mean
    left: tuple[str, ...]
    right: tuple[str, ...]
    gold: Values
    binary: bool
    sha256: str = ""  # of the content; computed if left out
    prompts: tuple[str | None, str | None] = (None, None)  # the names of the prompts of both sides

    def __post_init__(self) -> None:
        if not len(self.left) == len(self.right) == len(self.gold) > 0:
            counts = f"{len(self.left)} left texts, {len(self.right)} right texts and {len(self.gold)} scores"
            raise DataError(f"task {self.name!r} has {counts}; it needs the same number of each, and at least one")
        if not self.sha256:
            content = zip(self.left, self.right, map(float, self.gold), strict=True)
            object.__setattr__(self, "sha256", _sha256(content))

    @property
    def metric(self) -> str:
        """The metric of the main value of `score`."""
        return "average precision" if self.binary else "spearman"

    @property
    def sides(self) -> tuple[Side, Side]:
        """The texts to encode for `score`."""
        return Side(self.left, self.prompts[0]), Side(self.right, self.prompts[1])

    def score(self, left: Values, right: Values) -> Scores:
        """The order of the cosines against that of the human scores; both sides are unit vectors, one per pair."""
        cosines = _cosines(left, right)
        main = average_precision(cosines, self.gold) if self.binary else spearman(cosines, self.gold)
        return Scores(SCALE * main, {}, cosines)


@dataclass(frozen=True, eq=False)
class SearchTask:
    """Questions over documents, with the documents that people judged to answer each.

    Every query ranks every document. BEIR leaves out a document with the id of the query, which matters only for sets
    whose queries are documents too; that is not done here.

    >>> task = SearchTask("cups", "cups", ("a mug", "a bus"), ("what to drink from?",), ({0: 1.0},), (None,))
    >>> task.metric
    'ndcg@10'
    >>> task.score(queries=np.eye(2)[:1], documents=np.eye(2)).main
    100.0
    """

    name: str
    group: str  # tasks of one group are reported by their mean
    documents: tuple[str, ...]
    queries: tuple[str, ...]
    judgements: tuple[Mapping[int, float], ...]  # for each query: the index of a document, and its grade above 0
    answers: tuple[str | None, ...]  # for each query: a string that a document with the answer contains
    sha256: str = ""  # of the content; computed if left out

    def __post_init__(self) -> None:
        if not len(self.queries) == len(self.judgements) == len(self.answers) > 0:
            counts = f"{len(self.queries)} queries, {len(self.judgements)} judgements and {len(self.answers)} answers"
            raise DataError(f"task {self.name!r} has {counts}; it needs the same number of each, and at least one")
        count = len(self.documents)
        for query, judged in zip(self.queries, self.judgements, strict=True):
            if not judged or not all(0 <= index < count and grade > 0 for index, grade in judged.items()):
                wanted = f"give grades above 0 for documents from 0 to {count - 1}"
                raise DataError(f"task {self.name!r} has {dict(judged)!r:.40} for the query {query!r:.40}; {wanted}")
        if not self.sha256:
            asked = zip(self.queries, self.judgements, self.answers, strict=True)
            content = ([query, sorted(judged.items()), answer] for query, judged, answer in asked)
            object.__setattr__(self, "sha256", _sha256([*self.documents, *content]))

    @property
    def metric(self) -> str:
        """The metric of the main value of `score`."""
        return "ndcg@10"

    @property
    def sides(self) -> tuple[Side, Side]:
        """The texts to encode for `score`."""
        return Side(self.queries, "query"), Side(self.documents, "document")

    def score(self, queries: Values, documents: Values) -> Scores:
        """Rank all documents for each query by cosine; both are unit vectors, one per text.

        Besides nDCG@10: recall@k, mrr@10, all@k (every judged document is among the first k) and, over the queries that
        have an answer, answer@k (it occurs in one of the first k documents, ignoring case).
        """
        nearest = [*rankings(queries, documents, RANKED)]
        ranked = [
            [grades.get(index, 0.0) for index in near] for near, grades in zip(nearest, self.judgements, strict=True)
        ]
        judged = [len(grades) for grades in self.judgements]
        units = np.array([ndcg(one, grades.values(), 10) for one, grades in zip(ranked, self.judgements, strict=True)])
        others = {f"recall@{k}": _mean(map(recall, ranked, judged, repeat(k))) for k in self._within(_RECALL_AT)}
        others["mrr@10"] = _mean(reciprocal_rank(one, 10) for one in ranked)
        others |= {f"all@{k}": _mean(map(all_found, ranked, judged, repeat(k))) for k in self._within(_ALL_AT)}
        if any(self.answers):
            others |= {f"answer@{k}": _mean(self._answered(nearest, k)) for k in self._within(_ANSWER_AT)}
        return Scores(SCALE * float(units.mean()), {name: SCALE * value for name, value in others.items()}, units)

    def _within(self, ranks: Iterable[int]) -> list[int]:
        """The `ranks` that exist in a ranking of these documents."""
        return [rank for rank in ranks if rank <= len(self.documents)]

    def _answered(self, nearest: Sequence[Sequence[int]], k: int) -> Iterator[bool]:
        for near, answer in zip(nearest, self.answers, strict=True):
            if answer:
                yield any(answer.casefold() in self.documents[index].casefold() for index in near[:k])


Task = PairTask | SearchTask


def check_names(tasks: Sequence[Task]) -> None:
    """Refuse duplicate names: scores are looked up by the name of a task or a group, so each must be unique."""
    groups = {task.group for task in tasks if task.group != task.name}
    duplicates = [name for name, count in Counter([*groups, *(task.name for task in tasks)]).items() if count > 1]
    if duplicates:
        raise DataError(f"two tasks have the name {duplicates[0]!r}; give each task once, and rename files if needed")


def rankings(queries: Values, documents: Values, count: int) -> Iterator[list[int]]:
    """The indices of the `count` nearest documents of each query, nearest first; ties by index.

    >>> [*rankings(np.array([[1, 0]]), np.array([[0, 1], [1, 0], [0, 1]]), 2)]
    [[1, 0]]
    """
    count = min(count, len(documents))
    block = max(1, _BLOCK // len(documents))
    for start in range(0, len(queries), block):
        cosines = queries[start : start + block] @ documents.T
        lowest = np.partition(cosines, -count, axis=1)[:, -count]
        for of_query, bound in zip(cosines, lowest, strict=True):
            near = np.flatnonzero(of_query >= bound)  # more than `count` if several tie with the last one
            yield near[np.argsort(-of_query[near], kind="stable")[:count]].tolist()


def _mean(values: Iterable[float]) -> float:
    return float(np.mean([*values]))


def _cosines(left: Values, right: Values) -> Values:
    """The cosine of each pair of vectors; exactly 1 if they are the same.

    The length of float32 unit vectors is off by some 1e-7, which would order pairs that ought to tie: with no layers
    and last-token pooling, most texts have the vector of a full stop.
    """
    products = [(one.astype(np.float64) * other).sum(1) for one, other in ((left, right), (left, left), (right, right))]
    cosines: Values = (products[0] / np.sqrt(products[1] * products[2]).clip(1e-12)).round(12)
    return cosines


def _sha256(content: Iterable[object]) -> str:
    digest = hashlib.sha256()
    for part in content:
        digest.update(json.dumps(part, separators=(",", ":")).encode() + b"\n")
    return digest.hexdigest()
