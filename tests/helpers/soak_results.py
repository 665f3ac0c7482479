"""What `make soak` saw: a line for the reader, and a row in the file that DEMITASSE_SOAK_RESULTS names.

    python tests/helpers/soak_results.py benchmarks/results/soak.jsonl

prints the rows of such a file as tables, as in docs/robustness.md.
"""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

Fact = str | int | float


def told(table: str, **row: Fact) -> None:
    """Print a row of one of the tables, and keep it."""
    print(f"\n{table}: {', '.join(f'{name} {value}' for name, value in row.items())}", flush=True)
    kept = os.environ.get("DEMITASSE_SOAK_RESULTS")
    if kept:
        with Path(kept).open("a", encoding="utf-8") as file:  # one short write, so that processes do not mix theirs
            file.write(json.dumps({"table": table, **row}) + "\n")


def tables(lines: list[str]) -> str:
    """The rows as Markdown, each table with the sums of its numbers."""
    rows: dict[str, list[dict[str, Fact]]] = defaultdict(list)
    for row in map(json.loads, lines):
        rows[row.pop("table")].append(row)
    return "\n\n".join(f"{table}\n\n{_markdown(some)}" for table, some in rows.items())


def _markdown(rows: list[dict[str, Fact]]) -> str:
    names = [*dict.fromkeys(name for row in rows for name in row)]
    numbers = {name: [row.get(name, 0) for row in rows] for name in names}
    sums = [sum(values) if all(isinstance(value, int) for value in values) else "" for values in numbers.values()]
    body = [[row.get(name, 0) for name in names] for row in rows] + [sums] * (len(rows) > 1)
    return "\n".join(map(_line, [names, ["---"] * len(names), *body]))


def _line(cells: Sequence[Fact]) -> str:
    return f"| {' | '.join(f'{cell:,}' if isinstance(cell, int) else str(cell) for cell in cells)} |"


if __name__ == "__main__":
    print(tables(Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()))
