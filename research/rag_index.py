"""What a search for RAG finds through `dt.Index`, by dims and by layers, beside exact search in float32.

    python research/rag_index.py DATA/retrieval/hotpotqa-500 --model built-in --model minilm --model minilm-exits \\
        --json research/results/rag-index.json

The columns of "Search for RAG" in docs/results.md: all layers at fewer dims (one index of full width, searched by its
first dims), all dims at fewer layers (documents and questions alike, an index each), and fewer layers for the question
alone (the index of all layers). Scores are those of `SearchTask`, x 100. `built-in` is the model of demitasse; any
other name is a folder.
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
from demitasse.encoding.vectors import unit_length
from demitasse.evaluation.metrics import all_found, ndcg, recall
from demitasse.evaluation.task_files import read_tasks
from demitasse.evaluation.tasks import SearchTask, rankings

DIMS = (64, 128, 256)
FOUND = 10  # paragraphs that reach the reader


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", action="append", required=True)
    parser.add_argument("--json", type=Path, required=True)
    given = parser.parse_args()
    (task,) = read_tasks([given.folder])
    assert isinstance(task, SearchTask)
    models = {}
    for name in given.model:
        encoder = dt.load(None if name == "built-in" else name)
        models[Path(name).name] = {"cut": str(encoder.full), "precision": encoder.precision, "rows": []}
        for row in measured(encoder, task):
            print(Path(name).name, row, flush=True)
            models[Path(name).name]["rows"].append(row)
    facts = {"demitasse": dt.__version__, "task": task.name, "sha256": task.sha256}
    counts = {"documents": len(task.documents), "questions": len(task.queries)}
    given.json.write_text(json.dumps(facts | counts | {"models": models}, indent=1) + "\n")


def measured(encoder: dt.Encoder, task: SearchTask) -> Iterator[dict[str, Any]]:
    layers, dims = encoder.full
    cuts = dt.grid(range(layers + 1), [dims])
    documents = encoder.encode_cuts(task.documents, cuts, prompt_name="document", progress=False)
    questions = encoder.encode_cuts(task.queries, cuts, prompt_name="query", progress=False)
    with tempfile.TemporaryDirectory() as folder:
        index = dt.Index.build(encoder, task.documents, Path(folder) / "index", progress=False)
        for width in (*(one for one in DIMS if one < dims), dims):
            narrow = (vectors[encoder.full][:, :width] for vectors in (questions, documents))
            yield row("dims", dt.Cut(layers, width), task, index, *narrow)
        for cut in reversed(cuts[:-1]):
            yield row("questions", cut, task, index, questions[cut], documents[encoder.full])
            own = dt.Index.build(encoder.cut(cut), task.documents, Path(folder) / str(cut), progress=False)
            yield row("layers", cut, task, own, questions[cut], documents[cut])


def row(
    what: str, cut: dt.Cut, task: SearchTask, index: dt.Index, questions: np.ndarray, documents: np.ndarray
) -> dict[str, Any]:
    """One column: `what` was made smaller, to `cut`."""
    hits = index.search_vectors(questions, FOUND)
    found = [[int(hit.id) for hit in of_question] for of_question in hits]
    exact = [*rankings(unit_length(questions), unit_length(documents), FOUND)]
    same = [len({*ours} & {*theirs}) / FOUND for ours, theirs in zip(found, exact, strict=True)]
    return {
        "smaller": what,
        "cut": str(cut),
        "index": scores(task, found),
        "exact": scores(task, exact),
        "same_paragraphs": round(100 * float(np.mean(same)), 2),
    }


def scores(task: SearchTask, found: list[list[int]]) -> dict[str, float]:
    """What `SearchTask.score` says of a ranking, x 100."""
    asked = list(zip(found, task.judgements, task.answers, strict=True))
    grades = [([judged.get(place, 0.0) for place in near], judged) for near, judged, _ in asked]
    means = {
        "ndcg@10": [ndcg(ranked, judged.values(), FOUND) for ranked, judged in grades],
        "recall@10": [recall(ranked, len(judged), FOUND) for ranked, judged in grades],
        "all@10": [all_found(ranked, len(judged), FOUND) for ranked, judged in grades],
    }
    for count in (5, FOUND):
        means[f"answer@{count}"] = [
            any(answer.casefold() in task.documents[place].casefold() for place in near[:count])
            for near, _, answer in asked
            if answer
        ]
    return {name: round(100 * float(np.mean(values)), 2) for name, values in means.items()}


if __name__ == "__main__":
    main()
