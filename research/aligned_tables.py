"""The tables of research/aligned in docs/log.md, from results/aligned-*.json and results/evaluation-sets.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULT = Path(__file__).parent / "results" / "aligned-experiments.json"
LABELS = {
    "raw": "as released",
    "base": "`base`: nomic 0.5, mpnet 0.3, MiniLM 0.2",
    "nm": "`nm`: nomic 0.55, mpnet 0.45",
    "short": "`short`: as `nm`, more and larger batches of short texts",
    "rates": "`rates`: as `base`, Muon 1.2e-3, words 1e-3, the rest 4e-4",
    "pairs": "`pairs`: as `base`, contrastive pairs with hard negatives",
    "mini": "`mini`: nomic 0.4, mpnet 0.25, MiniLM 0.35",
    "final": "`final`",
}
SETS = Path(__file__).parent / "results" / "evaluation-sets.json"
RELEASED_STS = Path(__file__).parent / "results" / "sts-minilm-raw.json"
LIMITS = Path(__file__).parent / "results" / "aligned-limits.json"
TUNED = Path(__file__).parent / "results" / "aligned-tuned-teachers.json"
DEV = ("reqa-squad-dev", "medline", "nqswap", "bioasq", "climatefever", "questions", "quora-search")
TEST = ("hotpotqa-500", "scifact")


def runs() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(RESULT.read_text())["runs"]
    return found


def _sts(sts: dict[str, float]) -> str:
    below = " / ".join(f"{sts[f'layers 1-5 x{width}']:.2f}" for width in (384, 128, 32))
    return " | ".join([f"{sts['6x384']:.2f}", below, *(f"{sts[f'{depth}x384']:.2f}" for depth in (3, 1, 0))])


def aligned_dev() -> list[str]:
    """STS of the dev sets, and what a run took."""
    lines = [
        "| | steps | ms a step | last layer | layers 1-5 at 384 / 128 / 32 dims | 3 layers | 1 layer | 0 layers |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for run in runs():
        took = f"{run['steps']:,} | {run['ms_a_step']:.1f}" if "steps" in run else " | "
        lines.append(f"| {LABELS[run['run']]} | {took} | {_sts(run['dev']['sts'])} |")
    return lines


def aligned_searches() -> list[str]:
    """The other dev sets: full size, and 3 layers with 128 dims."""
    lines = ["| full size, 3x128 | " + " | ".join(DEV) + " |", "|---|" + "---|" * len(DEV)]
    for run in runs():
        cells = [f"{run['dev'][name]['6x384']:.3f}, {run['dev'][name]['3x128']:.3f}" for name in DEV]
        lines.append(f"| `{run['run']}` | " + " | ".join(cells) + " |")
    return lines


def aligned_tests() -> list[str]:
    """The tests, for the model as released and the last run alone."""
    cuts = {"6x384": "full size", "3x128": "3x128", "q3x384": "query at 3 layers", "0x384": "0 layers"}
    lines = [
        "| | STS: last layer | layers 1-5 at 384 / 128 / 32 dims | 3 layers | 1 layer | 0 layers "
        + "".join(f"| {name}: {', '.join(cuts.values())} " for name in TEST)
        + "|",
        "|---|" + "---|" * (5 + len(TEST)),
    ]
    for run in runs():
        if "test" in run:
            searches = [", ".join(f"{run['test'][name][cut]:.3f}" for cut in cuts) for name in TEST]
            lines.append(f"| {LABELS[run['run']]} | {_sts(run['test']['sts'])} | {' | '.join(searches)} |")
    return lines


def aligned_teachers() -> list[str]:
    """Teachers and mixtures of them, centred over all texts."""
    sets = ("stsb-dev", "sick-trial", *DEV)
    lines = ["| | " + " | ".join(sets) + " |", "|---|" + "---|" * len(sets)]
    for row in json.loads(RESULT.read_text())["teachers"]:
        if row["centre"] == "all":
            lines.append(f"| `{row['teachers']}` | " + " | ".join(f"{row[name]:.3f}" for name in sets) + " |")
    return lines


def aligned_tuned() -> list[str]:
    """Teachers as released and as tuned, and mixtures of them."""
    sets = ("stsb-dev", "sick-trial", *DEV)
    lines = ["| | " + " | ".join(sets) + " |", "|---|" + "---|" * len(sets)]
    for row in json.loads(TUNED.read_text())["mixtures"]:
        lines.append(f"| `{row['teachers']}` | " + " | ".join(f"{row[name]:.3f}" for name in sets) + " |")
    return lines


def aligned_limits() -> list[str]:
    """Teachers, their vectors turned to fewer dims, the built-in model, and exits that read several depths."""
    rows = json.loads(LIMITS.read_text())["rows"]
    sets = [*rows[0]["scores"]]
    lines = ["| | " + " | ".join(sets) + " |", "|---|" + "---|" * len(sets)]
    return lines + [
        f"| {row['name']} | " + " | ".join(f"{100 * row['scores'][name]:.1f}" for name in sets) + " |" for row in rows
    ]


def aligned_nearness() -> list[str]:
    """How near exits come to the teachers' vectors: training texts that were held out, and each dev set."""
    rows = [row for row in json.loads(LIMITS.read_text())["rows"] if "cosines" in row]
    sets = [*rows[0]["cosines"]]
    lines = ["| | " + " | ".join(sets) + " |", "|---|" + "---|" * len(sets)]
    return lines + [
        f"| {row['name']} | " + " | ".join(f"{row['cosines'][name]:.3f}" for name in sets) + " |" for row in rows
    ]


def evaluation_sets() -> list[str]:
    """The built-in model on every evaluation set, beside the model as released."""
    cuts = ("6x384", "3x384", "3x128", "1x384", "0x384")
    ours, released = json.loads(SETS.read_text()), _released()
    lines = ["| | " + " | ".join(cuts) + " | as released: 6x384 | 3x128 |", "|---|" + "---|" * (len(cuts) + 2)]
    for one in ours["sets"]:
        name, scores = one["name"], ours["scores"][one["name"]]
        before = [f"{100 * released[name][cut]:.1f}" if name in released else "" for cut in ("6x384", "3x128")]
        cells = [f"{100 * scores[cut]:.1f}" for cut in cuts]
        lines.append(f"| {name}{', dev' * (one['role'] == 'dev')} | " + " | ".join([*cells, *before]) + " |")
    return lines


def _released() -> dict[str, dict[str, float]]:
    """all-MiniLM-L6-v2 as released: searches and pairs of questions from these runs, STS from its own grid."""
    raw = next(run for run in runs() if run["run"] == "raw")
    tasks = json.loads(RELEASED_STS.read_text())["tasks"]
    sts = {name: {cut: row["same"] / 100 for cut, row in rows.items()} for name, rows in tasks.items()}
    return sts | {name: scores for part in ("dev", "test") for name, scores in raw[part].items() if name != "sts"}
