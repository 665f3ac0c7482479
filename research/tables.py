"""Write the tables of README.md, docs/ and the model card from research/results/*.json, or check that they are current.

    python research/tables.py           # write
    python research/tables.py --check   # exit 1 if a table differs from its JSON

A table stands between `<!-- table: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from aligned_tables import (
    aligned_dev,
    aligned_limits,
    aligned_nearness,
    aligned_searches,
    aligned_teachers,
    aligned_tests,
    aligned_tuned,
    evaluation_sets,
)
from benchmark_tables import (
    aligned_step,
    compare_cpu,
    corpus_plan,
    corpus_rates,
    encode_cpu,
    encode_gpu,
    mixed_depths,
    openvino,
    overload_simulation,
    plan_check,
    search_peers,
    serve_closed,
    serve_overload,
    serve_soak,
    train_step,
)
from paper_results import backbones, read_files
from results_tables import brief
from search_tables import rag_index, search_index, search_of, search_scans, searches, searches_across
from soak_tables import TABLES as SOAK_TABLES
from soak_tables import word_cache_attack
from web_tables import (
    web_browsers,
    web_differences,
    web_equality,
    web_operators,
    web_peer,
    web_rounded,
    web_search,
    web_visits,
)

ROOT = Path(__file__).parents[1]
PAGES = (
    "README.md",
    "docs/index.md",
    *(f"docs/how-to/{name}.md" for name in ("choose-a-cut", "cut-your-own-model", "embed-a-corpus", "rag", "train")),
    *(f"docs/{name}.md" for name in ("log", "models", "objectives", "robustness", "search")),
    *(f"docs/{name}.md" for name in ("serving-engine", "speed", "web")),
    "src/demitasse/assets/model/README.md",
)
DIMS = (32, 64, 128, 256, 384)
LAPTOP = {  # research/results/laptop, and what each run was
    "espresso-compress=none": "ESE, no compression",
    "espresso": "ESE, `Published`",
    "espresso-compress=principal": "ESE, `Principal`",
    "elastic": "Elastic, distil_rate 2e-4, anchor 5, temperature 0.05",
    "elastic-distil_rate=5e-4": "distil_rate 5e-4",
    "elastic-distil_rate=1e-3": "distil_rate 1e-3",
    "elastic-distil_rate=5e-4-anchor=1": "distil_rate 5e-4, anchor 1",
    "elastic-distil_rate=5e-4-temperature=0.03": "distil_rate 5e-4, temperature 0.03",
    "elastic-distil_rate=3e-4-temperature=0.03-anchor=20": "distil_rate 3e-4, temperature 0.03, anchor 20",
}


def result(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((ROOT / "research" / "results" / f"{name}.json").read_text())
    return loaded


def exits(kind: str = "exits") -> list[str]:
    """all-MiniLM-L6-v2 as released and with exits, by layers and dims."""
    before, after = (result(f"sts-minilm-{name}")["means"]["test/same"] for name in ("raw", kind))
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
    """The largest differences of research/architectures.py."""
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
    """Everything research/exit_experiments.py tried."""
    kinds = ("shallow", "last", "against last")
    lines = [
        "| at 384 / 128 / 32 dims | layers 1-5 | last layer | layers 1-5 against the last | held-out cosine |",
        "|---|---|---|---|---|",
    ]
    for label, row in result("exit-experiments")["stsb-dev"].items():
        cells = [" / ".join(f"{row[kind][dims]:.1f}" for dims in ("384", "128", "32")) for kind in kinds]
        lines.append(f"| {label} | " + " | ".join(cells) + f" | {row['held-out cosine']:.3f} |")
    return lines


def built_in() -> list[str]:
    """The built-in model's grid, and what int8 changed."""
    fp32, int8 = (result(name)["means"]["test/same"] for name in ("sts-built-in", "sts-built-in-int8"))
    lines = ["| layers | " + " | ".join(f"{d} dims" for d in DIMS) + " |", "|---|" + "---|" * len(DIMS)]
    for layers in range(6, -1, -1):
        cuts = [f"{layers}x{d}" for d in DIMS]
        cells = [f"{int8[cut]:.1f} ({int8[cut] - fp32[cut]:+.2f})" for cut in cuts]
        lines.append(f"| {layers} | " + " | ".join(cells) + " |")
    return lines


def built_in_search() -> list[str]:
    """The built-in model's searches beside those of the model it was made from."""
    columns = [(task, dims) for task in ("hotpotqa-500", "scifact") for dims in (384, 128)]
    headings = [f"{task}, {dims} dims (source)" for task, dims in columns]
    lines = ["| layers | " + " | ".join([*headings, "hotpotqa-500, documents at 6"]) + " |", "|---|" + "---|" * 5]
    across = result("searches")["models"]["built-in"]["hotpotqa-500"]["across"]
    for layers in range(6, -1, -1):
        cuts = [(task, f"{layers}x{dims}") for task, dims in columns]
        cells = [f"{search_of('built-in', *cut):.1f} ({search_of('RAW', *cut):.1f})" for cut in cuts]
        lines.append(f"| {layers} | " + " | ".join([*cells, f"{across[f'{layers}-6']:.1f}"]) + " |")
    return lines


def parity() -> list[str]:
    """Blocks against torch."""
    lines = [
        "| model | depths | fp32 blocks, largest difference | int8 blocks, least mean cosine |",
        "|---|---|---|---|",
    ]
    for name, row in result("export-parity")["models"].items():
        cosine = f"{row['int8_least_mean_cosine']:.4f}"
        lines.append(f"| {name} | {row['depths']} | {row['largest_difference']:.0e} | {cosine} |")
    return lines


def objectives_minilm() -> list[str]:
    """What each objective makes of all-MiniLM-L6-v2."""
    lines = [
        "| `--run` | last layer | layers 1-5 at 384 / 128 / 32 dims | 0 layers | stsb-dev: last; layers 1-5 |",
        "|---|---|---|---|---|",
    ]
    for run in result("paper/minilm-rates")["runs"]:
        if "layers=" in run["run"]:  # a model that was cut first: docs/results.md
            continue
        test, dev = (run["summary"][group] for group in ("sts", "stsb-dev"))
        shallow_of = [" / ".join(f"{row[f'shallow {d}']:.1f}" for d in (384, 128, 32)) for row in (test, dev)]
        lines.append(
            f"| `{run['run']}` | {test['last']:.1f} | {shallow_of[0]} | {test['zero']:.1f} "
            f"| {dev['last']:.1f}; {shallow_of[1]} |"
        )
    return lines


def headline() -> list[str]:
    """Every objective on every model of docs/results.md: all layers, and those below."""
    return brief(backbones(read_files(ROOT / "research" / "results" / "paper")), widths=())


def elastic_experiments() -> list[str]:
    """Training runs on a GPU: dev sets first, which choices are made on."""
    lines = [
        "| | stsb-dev: last; layers 1-5 at 384 / 128 / 32 | the tests | hotpotqa-500, scifact |",
        "|---|---|---|---|",
    ]
    for batch in result("elastic-experiments")["batches"]:
        lines.append(f"| *{batch['note']}* | | | |")
        for run in batch["runs"]:
            found = run.get("summary") or {group: {"last": value} for group, value in run["last"].items()}
            dev, test = (_last_and_shallow(found[group]) for group in ("stsb-dev", "sts"))
            search = [f"{found[name]['last']:.1f}" for name in ("hotpotqa-500", "scifact") if name in found]
            variant = f", {run['variant']}" if "variant" in run else ""
            weights = f", weights {'/'.join(f'{w:g}' for w in run['weights'])}" if "weights" in run else ""
            lines.append(f"| `{run['run']}`{variant}{weights} | {dev} | {test} | {', '.join(search)} |")
    return lines


def _last_and_shallow(row: dict[str, float]) -> str:
    shallow_of = " / ".join(f"{row[f'shallow {d}']:.1f}" for d in (384, 128, 32) if f"shallow {d}" in row)
    return f"{row['last']:.1f}" + (f"; {shallow_of}" if shallow_of else "")


def laptop_dev() -> list[str]:
    """stsb-dev of the short runs on two cores."""
    lines = ["| | last layer at 384 / 128 / 32 dims | layers 1-5 | 0 layers at 384 |", "|---|---|---|---|"]
    for name in LAPTOP:
        same = result(f"laptop/{name}")["means"]["dev/same"]
        last = " / ".join(f"{same[f'6x{d}']:.1f}" for d in (384, 128, 32))
        others = " / ".join(f"{shallow(same, d):.1f}" for d in (384, 128, 32))
        lines.append(f"| {LAPTOP[name]} | {last} | {others} | {same['0x384']:.1f} |")
    return lines


def espresso_halves() -> list[str]:
    """What a step of ESE follows, by model."""
    lines = ["| | length of vectors | ESE (paper): express, compress | ESE (released code) |", "|---|---|---|---|"]
    for row in result("espresso-halves")["models"]:
        lengths = row["length_of_vectors"]
        cells = [
            f"{own['express_gradient']:.3g}, {own['compress_gradient']:.3g}; {own['cosine_of_whole_and_express']:.2f}"
            for own in (row["espresso"], row["espresso-released"])
        ]
        lines.append(f"| {row['model']} | {min(lengths):.1f} to {max(lengths):.1f} | " + " | ".join(cells) + " |")
    return lines


def objective_parity() -> list[str]:
    """The largest relative difference from other implementations."""
    lines = ["| | slow reference | sentence-transformers 6.2 | angle-emb 0.6.1 |", "|---|---|---|---|"]
    for name, row in result("objective-parity")["largest_relative_difference"].items():
        cells = [value if isinstance(value, str) else f"{value:.0e}" for value in row.values()]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


TABLES: dict[str, Callable[[], list[str]]] = {
    "exits": exits,
    "exit steps": exit_steps,
    "exit experiments": exit_experiments,
    "architectures": architectures,
    "evaluation sets": evaluation_sets,
    "built in": built_in,
    "built in search": built_in_search,
    "encode cpu": encode_cpu,
    "compare cpu": compare_cpu,
    "plan check": plan_check,
    "corpus rates": corpus_rates,
    "corpus plan": corpus_plan,
    "encode gpu": encode_gpu,
    "mixed depths cpu": lambda: mixed_depths("cpu"),
    "mixed depths gpu": lambda: mixed_depths("gpu"),
    "openvino": openvino,
    "web browsers": web_browsers,
    "web differences": web_differences,
    "web equality": web_equality,
    "web operators": web_operators,
    "web peer": web_peer,
    "web rounded": web_rounded,
    "web search": web_search,
    "web visits": web_visits,
    "overload simulation": overload_simulation,
    "serve closed": serve_closed,
    "serve overload": serve_overload,
    "serve soak": serve_soak,
    "search index": search_index,
    "rag index": rag_index,
    "searches hotpotqa": lambda: searches("hotpotqa-500"),
    "searches scifact": lambda: searches("scifact"),
    "searches across hotpotqa": lambda: searches_across("hotpotqa-500"),
    "searches across scifact": lambda: searches_across("scifact"),
    "search 100k": lambda: search_peers("search", 100_000, 384),
    "search 1m": lambda: search_peers("search-1m", 1_000_000, 384),
    "search scans": search_scans,
    "parity": parity,
    "elastic experiments": elastic_experiments,
    "aligned dev": aligned_dev,
    "aligned limits": aligned_limits,
    "aligned nearness": aligned_nearness,
    "aligned searches": aligned_searches,
    "aligned teachers": aligned_teachers,
    "aligned tests": aligned_tests,
    "aligned tuned": aligned_tuned,
    "laptop dev": laptop_dev,
    "laptop": lambda: exits("laptop"),
    "objectives minilm": objectives_minilm,
    "headline": headline,
    "train step": train_step,
    "aligned step": aligned_step,
    "objective parity": objective_parity,
    "espresso halves": espresso_halves,
    "word cache attack": word_cache_attack,
    **SOAK_TABLES,
}


MARKED = re.compile(r"(<!-- table: ([\w ]+) -->)\n.*?<!-- end -->", flags=re.DOTALL)


def filled(text: str, tables: Mapping[str, Callable[[], list[str]]] = TABLES) -> str:
    """`text` with every marked table written anew."""
    return MARKED.sub(lambda found: "\n".join([found[1], *tables[found[2]](), "<!-- end -->"]), text)


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
        sys.exit(f"{', '.join(stale)}: tables differ from research/results/; run python research/tables.py")


if __name__ == "__main__":
    main()
