"""Searches by layers and dims, by the layers of queries and of documents, and what BM25 and a static model find.

    python research/searches.py DATA/retrieval --model built-in --bm25 --static STATIC \
        --json research/results/searches.json --figure docs/figures/built-in-searches.png

Of every model: nDCG@10 x 100 with all cuts the same for queries and documents, and with all dims for each number of
layers of the query against each of the documents. `built-in` is the model of demitasse, any other NAME=FOLDER a model
folder. STATIC is a folder of model2vec, such as `python -c "from model2vec.distill import distill;
distill('all-MiniLM-L6-v2', pca_dims=256).save_pretrained('STATIC')"` writes. --bm25 and --static need bm25s and
model2vec, which demitasse does not. What is in the JSON already and not asked for stays.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import demitasse as dt
from demitasse.display.charts import heat_map, save_picture
from demitasse.encoding.vectors import unit_length
from demitasse.evaluation.metrics import ndcg
from demitasse.evaluation.task_files import read_tasks
from demitasse.evaluation.tasks import SearchTask, rankings

TASKS = ("hotpotqa-500", "scifact")
DIMS = (32, 64, 128, 256, 384)
FIRST = 10


def score(task: SearchTask, found: Sequence[Sequence[int]]) -> float:
    """Mean nDCG@10 x 100 of the documents that each query found."""
    values = [
        ndcg([judged.get(place, 0.0) for place in near], judged.values(), FIRST)
        for near, judged in zip(found, task.judgements, strict=True)
    ]
    return round(100 * float(np.mean(values)), 3)


def of_vectors(task: SearchTask, queries: np.ndarray, documents: np.ndarray) -> float:
    return score(task, [*rankings(unit_length(queries), unit_length(documents), FIRST)])


def of_model(encoder: dt.Encoder, task: SearchTask) -> dict[str, dict[str, float]]:
    layers, dims = encoder.full
    cuts = dt.grid(range(layers + 1), [dims])
    documents = encoder.encode_cuts(task.documents, cuts, prompt_name="document")
    queries = encoder.encode_cuts(task.queries, cuts, prompt_name="query")
    same = {
        f"{cut.layers}x{width}": of_vectors(task, queries[cut][:, :width], documents[cut][:, :width])
        for cut in cuts
        for width in DIMS
        if width <= dims
    }
    across = {
        f"{asked.layers}-{kept.layers}": of_vectors(task, queries[asked], documents[kept])
        for asked in cuts
        for kept in cuts
    }
    return {"same": same, "across": across}


def of_words(task: SearchTask) -> float:
    """BM25 as bm25s has it by default: k1 1.5, b 0.75, English stop words left out, no stemming."""
    import bm25s

    index = bm25s.BM25()
    index.index(bm25s.tokenize(list(task.documents), stopwords="en", show_progress=False), show_progress=False)
    asked = bm25s.tokenize(list(task.queries), stopwords="en", show_progress=False)
    found, _ = index.retrieve(asked, k=FIRST, show_progress=False)
    return score(task, found.tolist())


def of_static(folder: str, task: SearchTask) -> float:
    from model2vec import StaticModel

    static = StaticModel.from_pretrained(folder)
    return of_vectors(task, static.encode(list(task.queries)), static.encode(list(task.documents)))


def measured(given: argparse.Namespace, task: SearchTask) -> Iterator[tuple[str, Any]]:
    for named in given.model:
        name, _, folder = named.partition("=")
        yield name, of_model(dt.load(folder or None), task)
    if given.bm25:
        yield "BM25", {"score": of_words(task)}
    if given.static:
        yield "model2vec", {"score": of_static(given.static, task)}


def draw(models: dict[str, Any], path: Path) -> None:
    """The built-in model by layers of queries and documents, a panel for each task."""

    def figure() -> Figure:
        made = Figure(figsize=(8.4, 3.6), layout="constrained")
        panels = made.subplots(1, len(TASKS))
        for axes, task in zip(panels, TASKS, strict=True):
            across = models["built-in"][task]["across"]
            heat_map(axes, {tuple(map(int, key.split("-"))): value for key, value in across.items()})  # type: ignore[misc]
            axes.set_title(task, loc="left")
            axes.set_xlabel("layers of documents")
        panels[0].set_ylabel("layers of queries")
        return made

    save_picture(path, figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("--bm25", action="store_true")
    parser.add_argument("--static")
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--figure", type=Path)
    given = parser.parse_args()
    result = json.loads(given.json.read_text()) if given.json.exists() else {}
    result |= {"demitasse": dt.__version__, "metric": "ndcg@10", "tasks": {}}
    for task in read_tasks([given.folder / name for name in TASKS]):
        assert isinstance(task, SearchTask)
        result["tasks"][task.name] = {"sha256": task.sha256}
        for name, found in measured(given, task):
            print(task.name, name, found.get("score", found.get("same", {}).get("6x384")), flush=True)
            result.setdefault("models", {}).setdefault(name, {})[task.name] = found
            given.json.write_text(json.dumps(result, indent=1) + "\n")
    if given.figure:
        draw(result["models"], given.figure)


if __name__ == "__main__":
    main()
