"""Draw benchmarks/results/encode-cpu.json: quality against speed, every method at every number of layers.

python benchmarks/plot.py      # writes docs/encode-cpu.png
"""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).parents[1]
COLOURS = {"demitasse int8": "#b5541c", "demitasse fp32": "#e0a274", "sentence-transformers": "#4b6a88"}


def main() -> None:
    result = json.loads((ROOT / "benchmarks" / "results" / "encode-cpu.json").read_text())
    figure, axes = plt.subplots(figsize=(8, 4.6))
    names = list(dict.fromkeys(row["method"] for row in result["rows"]))
    for name in names:
        rows = [row for row in result["rows"] if row["method"] == name]
        speeds, scores = [row["sentences_a_second"] for row in rows], [row["sts"] for row in rows]
        axes.plot(speeds, scores, "o-", label=name, color=COLOURS.get(name), markersize=6, linewidth=1.5)
        if len(rows) > 1:
            for row in rows:
                label = f"{row['layers']}"
                axes.annotate(
                    label, (row["sentences_a_second"], row["sts"]), (0, 7), textcoords="offset points", ha="center"
                )
    axes.set_xscale("log")
    axes.set_xlabel("sentences a second, two cores (the numbers at the points: layers run)")
    axes.set_ylabel("mean Spearman x100, seven STS tests")
    axes.set_title("all-MiniLM-L6-v2 on a CPU", loc="left")
    axes.margins(y=0.12)
    axes.grid(visible=True, alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
    figure.tight_layout()
    figure.savefig(ROOT / "docs" / "encode-cpu.png", dpi=150)


if __name__ == "__main__":
    main()
