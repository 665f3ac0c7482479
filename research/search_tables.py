"""Tables of docs/search.md and docs/log.md, from research/results/search-*.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
EXACT = "exact float32"
METHODS = {
    EXACT: "numpy, float32",
    "none": "index, all in full",
    "dims 0.99": "index, 64 dims first",
    "bits 0.99": "index, bits first",
    "bits 0.95": "index, bits first, recall 0.95",
}


def search_index() -> list[str]:
    """nDCG@10 through an index against exact float32 search, by task and by the layers of the queries."""
    rows = _result("search-index")["rows"]
    lines = [
        "| | layers of the query | exact, float32 | all in full, int8 | 64 dims first | bits first |",
        "|---|---|---|---|---|---|",
    ]
    for task, layers in dict.fromkeys((row["task"], row["layers"]) for row in rows):
        of_both = [row for row in rows if (row["task"], row["layers"]) == (task, layers)]
        by_pass = {row["coarse"]: row for row in of_both if row.get("wanted", 0.99) == 0.99}
        exact = by_pass["float32"]["ndcg"]
        cells = [f"{exact:.4f}"]
        for coarse in ("none", "dims", "bits"):
            row = by_pass[coarse]
            kept = f", {row['shortlist']} kept" if row["shortlist"] else ""
            cells.append(f"{row['ndcg']:.4f} ({row['ndcg'] - exact:+.4f}{kept})")
        lines.append(f"| {task} | {layers} | " + " | ".join(cells) + " |")
    return lines


def search_scans() -> list[str]:
    """A million vectors: time, recall and size, of sentences and of clusters."""
    lines = [
        "| | | one query, ms | of 16 together, ms each | recall@10 | bytes per vector |",
        "|---|---|---|---|---|---|",
    ]
    for name, of_set in _result("search-scans")["sets"].items():
        methods = {row["method"]: row for row in of_set["methods"]}
        for method, label in METHODS.items():
            times = [_time(methods[method]["ms"][count], methods[EXACT]["ms"][count]) for count in ("1", "16")]
            size = of_set["float32_bytes"] if method == EXACT else round(of_set["bytes_per_vector"])
            recall = methods[method]["recall"]
            lines.append(f"| {name} | {label} | {times[0]} | {times[1]} | {recall:.3f} | {size:,} |")
    return lines


def search_kernels() -> list[str]:
    """One pass over a million vectors by each kernel that was tried."""
    kernels = _result("search-scans")["kernels"]
    rows = [f"| {name} | {ms:.1f} |" for name, ms in kernels.items()]
    return ["| one pass over a million vectors | ms |", "|---|---|", *rows]


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


def _time(ms: float, base: float) -> str:
    return f"{ms:.1f}" if ms == base else f"{ms:.1f} ({base / ms:.1f}x)"


def _result(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return loaded
