"""Tables of docs/robustness.md, for research/tables.py: benchmarks/results/soak.jsonl and word-cache-attack.json.

DEMITASSE_SOAK_RESULTS=benchmarks/results/soak.jsonl make soak   # appends a row for each test that it runs
python research/soak_tables.py benchmarks/results/soak.jsonl     # prints such a file, which may be half done
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
SOAK = RESULTS / "soak.jsonl"
Row = dict[str, Any]

KINDS = {  # of files, by how their names in tests/helpers/fuzz_seeds.py start
    "blocks/": "exported blocks",
    "st/": "folders of sentence-transformers",
    "elastic/": "elastic models",
    "described": "manifests, shown by `info`",
    "index/": "indexes",
    "corpus/": "manifests of a corpus",
    "rows": "training rows (`.jsonl`, `.json`, `.csv`, `.tsv`, `.txt`, `.gz`, `.parquet`)",
    "beir/": "search tasks (BEIR)",
    "encode ": "rows given to `encode` and `index build`",
    "profile": "profiles",
    "evaluation": "evaluations",
    "keys": "keys of the server",
    "run/": "runs of training, resumed",
    "cache": "stored vectors: caches and teachers",
    "teacher-": "stored vectors: caches and teachers",
    "stored": "stored vectors: caches and teachers",
}
SENTENCES = {
    "a model is saved by two processes while it is loaded": (
        "Two processes saved a model {saves} times while a third loaded it {loads} times ({way}): {encoded right} "
        "times the old or the new model was there whole, and {told that it changed} times a sentence said that it had "
        "changed."
    ),
    "a folder is replaced by three processes while it is read": (
        "Three processes replaced a folder {saves} times while a fourth read it ({way}): {whole} times it was whole, "
        "{changed while it was read} times a sentence said that it had changed, {absent for a moment} times it was "
        "absent between two renames."
    ),
    "forks beside threads that encode": (
        "A process was forked {forks} times while two of its threads encoded {new texts} new texts: every fork gave "
        "the vectors of its parent."
    ),
    "values of a wrong type": (
        "{functions} public functions were called {calls} times with values of a wrong type: {raw errors} errors were "
        "not one sentence of ours."
    ),
    "malformed requests": (
        "{requests} malformed requests were sent to the server: {200} had answers after all, {500} were errors of the "
        "server, the others were refused."
    ),
    "many clients": (
        "{clients} clients at a time sent the server {requests} requests with {texts} texts in {seconds} s, each at a "
        "cut of its own: no number of a vector was further than {largest difference} from what `encode` gives."
    ),
}


def rows_of(table: str, path: Path = SOAK) -> list[Row]:
    """The rows of one of the tables; none where they have not been made yet."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [row for row in map(json.loads, lines) if row["table"] == table]


def word_cache_attack() -> list[str]:
    """What the second caller got, against what it should have got."""
    found = json.loads((RESULTS / "word-cache-attack.json").read_text())
    lines = ["| | cosine of the second caller's vector to the right one |", "|---|---|"]
    return [*lines, *(f"| {name} | {found[key]:.3f} |" for name, key in (("before", "before"), ("now", "now")))]


def crashes(path: Path = SOAK) -> list[str]:
    """Each command: how many writes it has, at how many it was killed and the disk full, and what that lost."""
    names = ("kills", "full disks", "lost")
    counted = {
        operation: [max(row["writes"] for row in rows), *(_sum(rows, name) for name in names)]
        for operation, rows in _grouped(rows_of("crashes", path), "operation").items()
    }
    return _table(["writes", "killed", "disk full", "lost"], counted)


def small_disks(path: Path = SOAK) -> list[str]:
    """Each command on disks that were really full."""
    counted = {
        operation: [_sum(rows, "too small"), max(row["KiB that were enough"] for row in rows)]
        for operation, rows in _grouped(rows_of("small disks", path), "operation").items()
    }
    lines = _table(["disks that were too small", "KiB that were enough"], counted)
    return lines if len(counted) < 2 else [*lines[:-1], f"| **all** | **{_sum_of(counted, 0):,}** | |"]


def fuzz(path: Path = SOAK) -> list[str]:
    """Files of each kind, and how their changes ended."""
    kinds: dict[str, list[Row]] = {label: [] for label in KINDS.values()}
    for row in rows_of("fuzz", path):
        label = next((label for start, label in KINDS.items() if row["file"].startswith(start)), row["file"])
        kinds.setdefault(label, []).append(row)
    names = ("mutations", "refused", "right", "findings", "CPU s")
    counted = {
        label: [len({row["file"] for row in rows}), *(_sum(rows, name) for name in names)]
        for label, rows in kinds.items()
        if rows
    }
    return _table(["kinds of file", "changed files", "refused", "right", "findings", "CPU s"], counted)


def others(path: Path = SOAK) -> list[str]:
    """A sentence for each of the other tests."""
    found = {table: rows_of(table, path) for table in SENTENCES}
    return [f"- {re.sub('{(.+?)}', partial(_fact, rows), SENTENCES[table])}" for table, rows in found.items() if rows]


def _fact(rows: list[Row], name: re.Match[str]) -> str:
    """What stands for `{name}` in a sentence: the sum over rows, unless it is one of a few."""
    values = [row[name[1]] for row in rows if name[1] in row]
    if name[1] == "way":
        return " and ".join(f"with {way}" for way in dict.fromkeys(values))
    return str(max(values, key=float)) if name[1] in ("clients", "largest difference") else f"{sum(values):,}"


def _grouped(rows: Iterable[Row], name: str) -> dict[str, list[Row]]:
    grouped: dict[str, list[Row]] = {}
    for row in rows:
        grouped.setdefault(row[name], []).append(row)
    return grouped


def _sum(rows: Iterable[Row], name: str) -> int:
    return sum(row.get(name, 0) for row in rows)


def _sum_of(counted: dict[str, list[int]], column: int) -> int:
    return sum(numbers[column] for numbers in counted.values())


def _table(headings: list[str], counted: dict[str, list[int]]) -> list[str]:
    """A row for each entry, and their sums."""
    lines = [f"| | {' | '.join(headings)} |", "|---" * (1 + len(headings)) + "|"]
    lines += [f"| {name} | {' | '.join(f'{number:,}' for number in numbers)} |" for name, numbers in counted.items()]
    if len(counted) > 1:
        sums = [_sum_of(counted, column) for column in range(len(headings))]
        lines.append(f"| **all** | {' | '.join(f'**{number:,}**' for number in sums)} |")
    return lines


TABLES = {"soak crashes": crashes, "soak small disks": small_disks, "soak fuzz": fuzz, "soak others": others}

if __name__ == "__main__":
    for made in TABLES.values():
        print("\n".join(made(Path(sys.argv[1]))), end="\n\n")
