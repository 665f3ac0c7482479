"""The logs of an exploration -> research/results/aligned-experiments.json.

    mkdir LOGS && tar xf logs.tar.gz -C LOGS     # logs.tar.gz: `remote.py pack` or `remote.py logs`
    python research/aligned/collect_results.py LOGS --runs raw base nm … --tests raw final --json OUT

Test scores are written for the runs of --tests alone: choices are made on dev sets.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from statistics import mean
from typing import Any

DEPTH = 6
WIDTHS = (384, 128, 32)
STS = {
    "dev": ("stsb-dev", "sick-trial"),
    "test": ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb-test", "sick-test"),
}
SEARCHES = {
    "dev": ("reqa-squad-dev", "medline", "nqswap", "bioasq", "climatefever", "questions", "quora-search"),
    "test": ("hotpotqa-500", "scifact"),
}
CUTS = ("6x384", "3x384", "3x128", "1x384", "0x384", "q3x384", "q1x384", "q3x128")  # q3: queries at 3 layers alone
TRAINED = re.compile(r"^trained (\d+) steps in ([\d.]+) s: ([\d.]+) ms a step$", flags=re.MULTILINE)
OPTIONS = re.compile(r"^options (\{.*\})$", flags=re.MULTILINE)
Scores = dict[str, dict[str, float]]


def scores_of(found: Scores, role: str) -> dict[str, Any]:
    """STS times 100, means over sets, by depth and width; each search and set of question pairs from 0 to 1."""
    grid = {
        f"{depth}x{width}": 100 * mean(found[name][f"{depth}x{width}"] for name in STS[role])
        for depth in range(DEPTH + 1)
        for width in WIDTHS
    }
    below = {f"layers 1-5 x{width}": mean(grid[f"{k}x{width}"] for k in range(1, DEPTH)) for width in WIDTHS}
    return {
        "sts": {cut: round(value, 4) for cut, value in {**below, **grid}.items()},
        **{name: {cut: round(found[name][cut], 6) for cut in CUTS if cut in found[name]} for name in SEARCHES[role]},
    }


def run_of(folder: Path, base: dict[str, Any], *, tests: bool) -> dict[str, Any]:
    found = json.loads((folder / "score.json").read_text())
    run: dict[str, Any] = {"run": folder.name}
    if (folder / "log.txt").exists():  # a model that was not trained has none
        text = (folder / "log.txt").read_text()
        options = json.loads(OPTIONS.findall(text)[-1])
        steps, seconds, ms = TRAINED.findall(text)[-1]
        run["options"] = {name: value for name, value in options.items() if value != base[name] and name != "name"}
        run |= {"steps": int(steps), "seconds": float(seconds), "ms_a_step": float(ms)}
    run["dev"] = scores_of(found, "dev")
    return run | ({"test": scores_of(found, "test")} if tests else {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", type=Path)
    parser.add_argument("--runs", nargs="+", required=True)
    parser.add_argument("--tests", nargs="*", default=[])
    parser.add_argument("--base", default="base", help="the run whose options the others' are compared with")
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args()
    runs = options.logs / "runs"
    base = json.loads(OPTIONS.findall((runs / options.base / "log.txt").read_text())[-1])
    teachers = []
    for row in json.loads((options.logs / "teachers.json").read_text()):
        mix, centre = row.pop("mix").split(" ")
        teachers.append({"teachers": mix, "centre": centre, **{name: round(value, 6) for name, value in row.items()}})
    result = {
        "what": "all-MiniLM-L6-v2 aligned at every depth with several teachers, on one H200; research/aligned",
        "base_options": {name: value for name, value in base.items() if name != "name"},
        "runs": [run_of(runs / name, base, tests=name in options.tests) for name in options.runs],
        "teachers": teachers,
    }
    options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
