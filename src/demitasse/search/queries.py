"""Queries read from files, and how well a search answered those whose answers are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from demitasse.data.text_rows import read_texts
from demitasse.errors import DataError
from demitasse.evaluation.metrics import ndcg, recall
from demitasse.evaluation.task_files import beir_file, beir_judgements, beir_rows

_SCORED = 10  # hits of each query


@dataclass(frozen=True)
class Queries:
    """Texts to search for; those of a BEIR folder have ids, and grades of the documents that answer them."""

    texts: tuple[str, ...]
    ids: tuple[str, ...] = ()
    grades: tuple[Mapping[str, float], ...] = ()

    @property
    def least(self) -> int:
        """How many hits of each query are needed to score it."""
        return _SCORED if self.grades else 0

    def scores(self, found: Sequence[Sequence[str]]) -> dict[str, float]:
        """nDCG@10 and recall@10 of the ids that were found, times 100; nothing without grades."""
        if not self.grades:
            return {}
        ranked = [[grades.get(id_, 0.0) for id_ in ids] for ids, grades in zip(found, self.grades, strict=True)]
        pairs = [*zip(ranked, self.grades, strict=True)]
        values = {
            f"nDCG@{_SCORED}": [ndcg(one, grades.values(), _SCORED) for one, grades in pairs],
            f"recall@{_SCORED}": [recall(one, len(grades), _SCORED) for one, grades in pairs],
        }
        return {name: round(100 * sum(of_queries) / len(pairs), 2) for name, of_queries in values.items()}


def read_queries(source: Path) -> Queries:
    """The queries of a file, one per line or in a column `text`, or of a BEIR folder with its judgements."""
    if not source.is_dir():
        texts = tuple(text for text in read_texts(source) if text.strip())
        if not texts:
            raise DataError(f"{source} has no queries; give at least one")
        return Queries(texts)
    if beir_file(source, "queries") is None:
        raise DataError(f"the folder {source} has no queries.jsonl; give a BEIR folder, or a file of queries")
    rows = beir_rows(source, "queries")
    grades: dict[str, dict[str, float]] = {}
    for _, query, document, grade in beir_judgements(source):
        grades.setdefault(query, {})[document] = grade
    asked = [id_ for id_ in rows if id_ in grades]
    if not asked:
        raise DataError(f"{source} has no judgement of its queries with a grade above 0; give at least one")
    return Queries(tuple(rows[id_]["text"] for id_ in asked), tuple(asked), tuple(grades[id_] for id_ in asked))
