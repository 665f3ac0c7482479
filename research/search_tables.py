"""Tables of docs/search.md and docs/how-to/rag.md, from research/results/."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


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


def _result(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return loaded
