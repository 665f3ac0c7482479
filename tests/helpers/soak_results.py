"""What `make soak` saw: a line for the reader, and a row in the file that DEMITASSE_SOAK_RESULTS names.

`research/soak_tables.py` shows such a file as tables, those of docs/robustness.md.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

Fact = str | int | float


def told(table: str, **row: Fact) -> None:
    """Print a row of one of the tables, and keep it."""
    print(f"\n{table}: {', '.join(f'{name} {value}' for name, value in row.items())}", flush=True)
    kept = os.environ.get("DEMITASSE_SOAK_RESULTS")
    if kept:
        with Path(kept).open("a", encoding="utf-8") as file:  # one short write, so that processes do not mix theirs
            file.write(json.dumps({"table": table, **row}) + "\n")
