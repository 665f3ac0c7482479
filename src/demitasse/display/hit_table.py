"""What a search found, and what an index holds, as tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from demitasse.search.hits import Hit
from demitasse.search.scan import RECALL

RECALL_SHOWN = str(RECALL)


def hit_table(hits: Sequence[Hit]) -> Table:
    """Hits, best first: score, id and text, with metadata below it."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("score", justify="right")
    table.add_column("id", overflow="fold", max_width=24)
    table.add_column("text", overflow="fold")
    for hit in hits:
        text = Text(_short(hit.text))
        if hit.metadata:
            text.append("\n" + _short(", ".join(f"{name}: {value}" for name, value in hit.metadata.items())), "dim")
        table.add_row(f"{hit.score:.3f}", Text(hit.id), text)
    return table


def index_lines(facts: dict[str, Any]) -> list[str]:
    """What `Index.info` says, in lines."""
    sizes, measured, graph = facts["bytes"], facts["measured"], facts["graph"]
    lines = [
        f"{facts['texts']:,} texts at {facts['cut']}, {facts['vectors']} vectors",
        f"model  {facts['model']} ({facts['precision']})",
        f"space  {facts['space'][:16]}",
        f"files  {facts['files']} of vectors ({_mb(sizes['vectors'])}), texts ({_mb(sizes['texts'])})"
        + (f", graph ({_mb(sizes['graph'])})" if graph else ""),
    ]
    if facts["deleted"]:
        lines.append(f"{facts['deleted']:,} deleted vectors wait for demitasse index compact")
    if measured:
        sizes_of = measured["shortlists"]
        each = ", ".join(f"{sizes_of[name].get(RECALL_SHOWN, 0):,} by {name}" for name in sizes_of)
        lines.append(f"shortlists for recall@10 of {RECALL_SHOWN}, measured on {measured['rows']:,}: {each}")
    if graph:
        known = "" if graph["recall"] is None else f", recall@10 {graph['recall']:g}"
        lines.append(f"graph of breadth {graph['breadth']}{known}")
    return lines


def _short(text: str, most: int = 240) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"


def _mb(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
