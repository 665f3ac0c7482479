"""Write the tables of README.md and docs/ from results/*.json, or check that they are current.

    python runs/tables.py           # write
    python runs/tables.py --check   # exit 1 if a table differs from its JSON

A table stands between `<!-- table: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/log.md")
DIMS = (32, 64, 128, 256, 384)


def result(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((ROOT / "results" / f"{name}.json").read_text())
    return loaded


def exits() -> list[str]:
    """all-MiniLM-L6-v2 as released and with exits, by layers and dims."""
    before, after = (result(f"sts-minilm-{kind}")["means"]["test/same"] for kind in ("raw", "exits"))
    lines = ["| layers | " + " | ".join(f"{d} dims" for d in DIMS) + " |", "|---|" + "---|" * len(DIMS)]
    for layers in range(6, -1, -1):
        cells = [f"{before[f'{layers}x{d}']:.1f} → **{after[f'{layers}x{d}']:.1f}**" for d in DIMS]
        lines.append(f"| {layers} | " + " | ".join(cells) + " |")
    cells = [f"{shallow(before, d):.1f} → **{shallow(after, d):.1f}**" for d in DIMS]
    return [*lines, "| mean of 1 to 5 | " + " | ".join(cells) + " |"]


def shallow(means: dict[str, float], dims: int) -> float:
    return sum(means[f"{layers}x{dims}"] for layers in range(1, 6)) / 5


def exit_steps() -> list[str]:
    """What each step of fit_exits adds: dev first, which the choices were made on."""
    names = {
        "raw": "as released",
        "closed-form": "closed form (`--no-order --no-refine`)",
        "order-only": "closed form, ordered (`--no-refine`)",
        "refine-only": "closed form, refined (`--no-order`)",
        "exits": "closed form, ordered, refined (the default)",
    }
    lines = [
        "| at 384 / 128 / 32 dims | stsb-dev, layers 1-5 | tests, layers 1-5 | tests, last layer "
        "| tests, layers 1-5 against the last |",
        "|---|---|---|---|---|",
    ]
    for name, label in names.items():
        means = result(f"sts-minilm-{name}")["means"]
        groups = [
            [shallow(means["dev/same"], d) for d in (384, 128, 32)],
            [shallow(means["test/same"], d) for d in (384, 128, 32)],
            [means["test/same"][f"6x{d}"] for d in (384, 128, 32)],
            [shallow(means["test/against_full"], d) for d in (384, 128, 32)],
        ]
        lines.append(f"| {label} | " + " | ".join(" / ".join(f"{v:.1f}" for v in group) for group in groups) + " |")
    return lines


def architectures() -> list[str]:
    """The largest differences of runs/architectures.py."""
    lines = [
        "| architecture | state = truncated model | saved = loaded again | = sentence-transformers | depths |",
        "|---|---|---|---|---|",
    ]
    for name, row in result("architectures")["largest_difference"].items():
        columns = ("state_against_truncated", "saved_and_reloaded", "sentence_transformers")
        cells = ["0" if row[key] == 0 else f"{row[key]:.0e}" for key in columns]
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {row['depths']} |")
    return lines


def exit_experiments() -> list[str]:
    """Everything runs/exit_experiments.py tried."""
    kinds = ("shallow", "last", "against last")
    lines = [
        "| at 384 / 128 / 32 dims | layers 1-5 | last layer | layers 1-5 against the last | held-out cosine |",
        "|---|---|---|---|---|",
    ]
    for label, row in result("exit-experiments")["stsb-dev"].items():
        cells = [" / ".join(f"{row[kind][dims]:.1f}" for dims in ("384", "128", "32")) for kind in kinds]
        lines.append(f"| {label} | " + " | ".join(cells) + f" | {row['held-out cosine']:.3f} |")
    return lines


TABLES: dict[str, Callable[[], list[str]]] = {
    "exits": exits,
    "exit steps": exit_steps,
    "exit experiments": exit_experiments,
    "architectures": architectures,
}


def filled(text: str) -> str:
    """`text` with every marked table written anew."""

    def table(found: re.Match[str]) -> str:
        return "\n".join([found[1], *TABLES[found[2]](), "<!-- end -->"])

    return re.sub(r"(<!-- table: ([\w ]+) -->)\n.*?<!-- end -->", table, text, flags=re.DOTALL)


def main() -> None:
    stale = []
    for page in PAGES:
        path = ROOT / page
        text = path.read_text()
        if filled(text) != text:
            stale.append(page)
            if "--check" not in sys.argv:
                path.write_text(filled(text))
    if "--check" in sys.argv and stale:
        sys.exit(f"{', '.join(stale)}: tables differ from results/; run python runs/tables.py")


if __name__ == "__main__":
    main()
