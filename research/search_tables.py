"""Tables of docs/search.md and docs/how-to/rag.md, from research/results/."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def search_index() -> list[str]:
    """nDCG@10 through an index against exact float32 search, by task and by the layers of the queries."""
    rows = [row for row in _result("search-index")["rows"] if row.get("wanted", 0.99) == 0.99]
    lines = [
        "| | layers of the query | exact, float32 | all in full, int8 | 64 dims first | bits first "
        "| 64 dims, shortest list | bits, shortest list |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for task, layers in dict.fromkeys((row["task"], row["layers"]) for row in rows):
        of_both = [row for row in rows if (row["task"], row["layers"]) == (task, layers)]
        ways = {(row["coarse"], bool(row.get("shortlist"))): row for row in of_both}
        exact = ways["float32", False]["ndcg"]
        cells = [f"{exact:.4f}"]
        for coarse, shortest in (("none", False), ("dims", False), ("bits", False), ("dims", True), ("bits", True)):
            row = ways[coarse, shortest]
            kept = f", {row['shortlist']} kept" if shortest else ""
            cells.append(f"{row['ndcg'] - exact:+.4f}{kept}")
        lines.append(f"| {task} | {layers} | " + " | ".join(cells) + " |")
    return lines


def rag_index() -> list[str]:
    """What a search for RAG finds through an index, by what was made smaller."""
    result = _result("rag-index")
    (model,) = result["models"].values()
    lines = [
        "| smaller | cut | nDCG@10 | both paragraphs in 10 | answer in 5 | nDCG@10, exact float32 |",
        "|---|---|---|---|---|---|",
    ]
    names = {"dims": "dims", "questions": "layers of the question", "layers": "layers of both"}
    for row in model["rows"]:
        found, exact = row["index"], row["exact"]
        lines.append(
            f"| {names[row['smaller']]} | {row['cut']} | {found['ndcg@10']:.1f} | {found['all@10']:.1f} "
            f"| {found['answer@5']:.1f} | {exact['ndcg@10']:.1f} |"
        )
    return lines


def search_scans() -> list[str]:
    """Passes over many vectors: how long each takes, and how many vectors it must keep for a recall."""
    lines = ["| | ms | kept for 0.95 | 0.98 | 0.99 | 0.995 |", "|---|---|---|---|---|---|"]
    for name, one in _result("search-scans")["passes"].items():
        kept = [f"{one['needed'][recall]:,}" if one["needed"] else "" for recall in ("0.95", "0.98", "0.99", "0.995")]
        lines.append(f"| {name} | {one['ms']:.1f} | " + " | ".join(kept) + " |")
    return lines


def _result(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return loaded


# Objectives trained on sentences alone (docs/results.md), by the beginning of the name of their run.
_PAPER = {
    "none": "all-MiniLM-L6-v2 as released (RAW)",
    "espresso ": "ESE (paper)",
    "espresso-released": "ESE (released code)",
    "elastic": "Elastic",
}
_CUTS = ("6x384", "3x384", "3x128", "1x384", "0x384")
_OTHERS = {"model2vec": "model2vec, distilled from all-MiniLM-L6-v2", "BM25": "BM25"}


def searches(task: str) -> list[str]:
    """nDCG@10 x 100 of the built-in model, of objectives trained on sentences, of a static model and of words."""
    paper, models = _result("paper/minilm-seed0")["runs"], _result("searches")["models"]
    lines = [
        "| | " + " | ".join(_CUTS) + " | queries at 3 layers, documents at 6 |",
        "|---|" + "---|" * (len(_CUTS) + 1),
    ]
    for start, label in _PAPER.items():
        scores = next(run["scores"] for run in paper if f"{run['run']} ".startswith(start))
        lines.append(_searches_row(label, scores[f"{task}/same"], scores[f"{task}/against_full"]["3x384"]))
    ours = models["built-in"][task]
    lines.append(_searches_row("**the built-in model**", ours["same"], ours["across"]["3-6"]))
    for name, label in _OTHERS.items():
        lines.append(f"| {label} | {models[name][task]['score']:.1f} |" + " |" * len(_CUTS))
    return lines


def _searches_row(label: str, same: dict[str, float], across: float) -> str:
    return f"| {label} | " + " | ".join(f"{same[cut]:.1f}" for cut in _CUTS) + f" | {across:.1f} |"


def searches_across(task: str) -> list[str]:
    """nDCG@10 x 100 of the built-in model by the layers of queries (rows) and of documents (columns)."""
    across = _result("searches")["models"]["built-in"][task]["across"]
    layers = range(1 + max(int(key.partition("-")[0]) for key in across))
    lines = [
        "| layers of queries | " + " | ".join(f"documents {count}" for count in layers) + " |",
        "|---|" + "---|" * len(layers),
    ]
    for asked in reversed(layers):
        lines.append(f"| {asked} | " + " | ".join(f"{across[f'{asked}-{kept}']:.1f}" for kept in layers) + " |")
    return lines


def search_of(model: str, task: str, cut: str) -> float:
    """nDCG@10 x 100 of RAW or of a model of searches.json at a cut; of one without cuts, its one score."""
    if model == "RAW":
        run = next(run for run in _result("paper/minilm-seed0")["runs"] if run["run"] == "none")
        return float(run["scores"][f"{task}/same"][cut])
    found = _result("searches")["models"][model][task]
    return float(found["same"][cut] if "same" in found else found["score"])
