"""Searches through an index against exact search in float32: nDCG@10 and recall@10, coarse to fine from bits and dims.

    python research/search_index.py DATA/retrieval/hotpotqa-500 DATA/retrieval/scifact --json …/search-index.json

Documents are encoded at full size, queries at several numbers of layers. Each row compares with an exact float32 search
with the same query vectors.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import demitasse as dt
from demitasse.evaluation.metrics import ndcg
from demitasse.evaluation.task_files import read_tasks
from demitasse.evaluation.tasks import SearchTask, rankings
from demitasse.host.machine import machine


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--layers", type=int, nargs="+", default=[6, 3, 1])
    parser.add_argument("--model")
    parser.add_argument("--json", type=Path, required=True)
    given = parser.parse_args()
    encoder = dt.load(given.model)
    tasks = [task for task in read_tasks(given.folders) if isinstance(task, SearchTask)]
    rows = [row for task in tasks for row in measured(encoder, task, given.layers)]
    plain = {"model": given.model or "built-in", "cut": str(encoder.full), "machine": machine(), "rows": rows}
    given.json.write_text(json.dumps(plain, indent=1) + "\n")


def measured(encoder: dt.Encoder, task: SearchTask, depths: list[int]) -> Iterator[dict[str, Any]]:
    documents = encoder.encode_document(task.documents)
    with tempfile.TemporaryDirectory() as folder:
        index = dt.Index.build(encoder, task.documents, Path(folder) / "index")
        shortlists = index.info()["measured"]["shortlists"]
        facts = {"task": task.name, "documents": len(task.documents), "queries": len(task.queries)}
        for layers in depths:
            queries = encoder.cut(layers=layers).encode_query(task.queries)
            exact = [*rankings(queries, documents, 10)]
            yield facts | {"layers": layers, "coarse": "float32", "ndcg": score(task, exact), "recall": 1.0}
            for coarse, recall, kept in ways(shortlists):
                hits = index.search_vectors(queries, k=10, scan=dt.Scan(coarse, recall, kept))
                found = [[int(hit.id) for hit in of_query] for of_query in hits]
                same = float(np.mean([len({*a} & {*b}) / 10 for a, b in zip(found, exact, strict=True)]))
                row = facts | {"layers": layers, "coarse": coarse, "wanted": recall}
                row |= {"shortlist": kept, "ndcg": score(task, found)}
                print(row | {"recall": same}, flush=True)
                yield row | {"recall": round(same, 4)}


def ways(shortlists: dict[str, dict[str, int]]) -> Iterator[tuple[str, float, int | None]]:
    """Each first pass, the recall that is asked for, and how many vectors it keeps; `None`: as a search does."""
    yield "none", 0.99, None
    for coarse in ("dims", "bits"):
        yield coarse, 0.99, None
        for recall in (0.95, 0.99):
            yield coarse, recall, shortlists[coarse][str(recall)]


def score(task: SearchTask, found: list[list[int]]) -> float:
    ranked = [[grades.get(place, 0.0) for place in one] for one, grades in zip(found, task.judgements, strict=True)]
    units = [ndcg(one, grades.values(), 10) for one, grades in zip(ranked, task.judgements, strict=True)]
    return round(float(np.mean(units)), 5)


if __name__ == "__main__":
    main()
