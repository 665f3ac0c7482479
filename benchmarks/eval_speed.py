"""What measuring many cuts at once saves over measuring them one by one, interleaved in one run.

    python benchmarks/eval_speed.py MODEL --data STS_FOLDER --json benchmarks/results/eval-speed.json
    python benchmarks/eval_speed.py --table            # write the table of docs/evaluation.md from that file
    python benchmarks/eval_speed.py --table --check    # exit 1 if it differs

Three sets of cuts: every width at all layers, every number of layers at full width, and the whole grid. Each is timed
as one `evaluate` of all its cuts ("together"), as an `evaluate` of each cut alone ("apart"), and with
sentence-transformers, which encodes the texts once for each cut: layers cut off the model's list, dims by
truncate_dim. Intervals are left out (resamples=0), since their cost is the same whichever way vectors are made. The
texts are those of --tasks, of which --rows pairs are taken.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import demitasse as dt
from demitasse.cut import usual_dims
from demitasse.evaluation.task_files import read_tasks
from demitasse.evaluation.tasks import PairTask
from demitasse.host.machine import cores

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

ROOT = Path(__file__).parents[1]
RESULT, PAGE = ROOT / "benchmarks/results/eval-speed.json", ROOT / "docs/evaluation.md"
WAYS = {
    "together": "one run",
    "apart": "a run for each",
    "sentence_transformers": "sentence-transformers, a run for each",
}
SETS = {"widths": "every width, all layers", "layers": "every number of layers, all dims", "grid": "the whole grid"}


def sets_of_cuts(full: dt.Cut) -> dict[str, list[dt.Cut]]:
    layers, dims = range(full.layers + 1), usual_dims(full.dims)
    return {
        "widths": dt.grid([full.layers], dims),
        "layers": dt.grid(layers, [full.dims]),
        "grid": dt.grid(layers, dims),
    }


def first_rows(task: PairTask, rows: int) -> PairTask:
    held = {"left": task.left[:rows], "right": task.right[:rows], "gold": task.gold[:rows]}
    return replace(task, **held, sha256="")


def together(encoder: dt.Encoder, tasks: list[PairTask], cuts: list[dt.Cut]) -> None:
    dt.evaluate(encoder, tasks, cuts=cuts, resamples=0)


def apart(encoder: dt.Encoder, tasks: list[PairTask], cuts: list[dt.Cut]) -> None:
    for cut in cuts:
        dt.evaluate(encoder, tasks, cuts=[cut], resamples=0)


def layers_of(model: SentenceTransformer) -> tuple[object, str] | None:
    """Where the list of layers is in the usual architectures, for a library that does not know."""
    inner = model[0].auto_model
    for path in ("encoder.layer", "transformer.layer", "layers"):
        parent_name, _, name = path.rpartition(".")
        parent = inner
        for part in filter(None, parent_name.split(".")):
            parent = getattr(parent, part, None)
        if hasattr(parent, name):
            return parent, name
    return None


def theirs(model: SentenceTransformer, tasks: list[PairTask], cuts: list[dt.Cut]) -> None:
    """A run for each cut, as one would write it with sentence-transformers."""
    found = layers_of(model)
    assert found is not None
    parent, name = found
    whole = getattr(parent, name)
    for cut in cuts:
        setattr(parent, name, whole[: cut.layers])
        model.truncate_dim = cut.dims
        for task in tasks:
            texts = list(dict.fromkeys((*task.left, *task.right)))
            rows = dict(
                zip(texts, model.encode(texts, normalize_embeddings=True, show_progress_bar=False), strict=True)
            )
            task.score(*(np.stack([rows[text] for text in side]) for side in (task.left, task.right)))
    setattr(parent, name, whole)


def timed(work: Callable[[], None]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def measure(folder: str | None, peer: str | None, tasks: list[PairTask], rounds: int) -> dict[str, object]:
    encoder, model = dt.load(folder), None
    if peer is not None:
        from sentence_transformers import SentenceTransformer

        model = SentenceTransformer(peer, device="cpu")
    result: dict[str, object] = {}
    for name, cuts in sets_of_cuts(encoder.full).items():
        ways: dict[str, Callable[[], None]] = {
            "together": lambda cuts=cuts: together(encoder, tasks, cuts),
            "apart": lambda cuts=cuts: apart(encoder, tasks, cuts),
        }
        if model is not None:
            ways["sentence_transformers"] = lambda cuts=cuts: theirs(model, tasks, cuts)
        together(encoder, tasks, cuts)  # warms up
        if model is not None:
            theirs(model, tasks, cuts[:1])
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(rounds):
            for way, work in ways.items():
                seconds[way].append(timed(work))
        row: dict[str, object] = {"cuts": len(cuts)}
        for way, values in seconds.items():
            ratios = [value / one for value, one in zip(values, seconds["together"], strict=True)]
            row[way] = {"seconds": round(float(np.median(values)), 3), "ratio": round(float(np.median(ratios)), 2)}
        result[name] = row
        parts = [
            f"{way} {value['seconds']:.2f} s ({value['ratio']:.1f}x)" for way, value in row.items() if way != "cuts"
        ]
        print(f"{name:8} {len(cuts):>3} cuts: {', '.join(parts)}", flush=True)
    return result


def table(result: dict) -> list[str]:
    """What each set of cuts takes, and its ratio to one run for all of them."""
    ways = [way for way in WAYS if any(way in row for rows in result["models"].values() for row in rows.values())]
    lines = ["| model | cuts | " + " | ".join(WAYS[way] for way in ways) + " |", "|---|---|" + "---|" * len(ways)]
    for model, rows in result["models"].items():
        for name, row in rows.items():
            cells = [_cell(way, row[way]) if way in row else "-" for way in ways]
            lines.append(f"| {model} | {row['cuts']}: {SETS[name]} | " + " | ".join(cells) + " |")
    said = (
        f"{result['texts']:,} texts of {', '.join(result['tasks'])}; {result['machine']}; medians of {result['rounds']}"
    )
    return [*lines, "", f"{said} rounds, all ways in each."]


def _cell(way: str, timed: dict) -> str:
    return f"{timed['seconds']:.1f} s" + ("" if way == "together" else f" ({timed['ratio']:.1f}x)")


def write_table(*, check: bool) -> None:
    page = PAGE.read_text()
    made = "\n".join(table(json.loads(RESULT.read_text())))
    mark = r"(<!-- table: eval speed -->\n).*?(<!-- end -->)"
    new, count = re.subn(mark, lambda found: f"{found[1]}{made}\n{found[2]}", page, flags=re.DOTALL)
    assert count == 1
    if check and new != page:
        sys.exit(f"{PAGE}: the table differs from {RESULT}; run python benchmarks/eval_speed.py --table")
    if not check:
        PAGE.write_text(new)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="folders; default: the built-in model")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--tasks", nargs="+", default=["stsb-dev", "sick-trial"])
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer", help="the same model as a sentence-transformers folder; default: the model itself")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--table", action="store_true", help="measure nothing; write the table")
    parser.add_argument("--check", action="store_true", help="with --table: write nothing, compare")
    options = parser.parse_args()
    if options.table:
        write_table(check=options.check)
        return
    tasks = [first_rows(task, options.rows) for task in read_tasks(options.tasks, options.data)]
    texts = sum(len({*task.left, *task.right}) for task in tasks)
    result = {
        "command": "python benchmarks/eval_speed.py",
        "machine": f"{platform.machine()}, {cores()} cores",
        "demitasse": dt.__version__,
        "tasks": options.tasks,
        "texts": texts,
        "rounds": options.rounds,
        "models": {},
    }
    for folder in options.models or [None]:
        name = "built-in" if folder is None else Path(folder).name
        print(f"{name}, {texts} texts")
        result["models"][name] = measure(folder, options.peer or folder, tasks, options.rounds)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
