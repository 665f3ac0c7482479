"""Write docs/results.md and its figures from results/paper/*.json and the prose of results_page.md, or check them.

python research/results_page.py                  # write; sections whose results are not there are left out
python research/results_page.py --check          # exit 1 if the page or a figure differs from the results
python research/results_page.py --time MODEL     # time MODEL at each number of layers: results/paper/minilm-time.json
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path

from paper_results import HOTPOT, TITLES, Backbone, File, backbones, few, of_kind, read_files
from results_figures import Picture, by_layer, by_time, search
from results_tables import (
    ablations,
    best,
    brief,
    data,
    files_table,
    main_table,
    paragraph,
    search_tables,
    separate,
    table,
)
from tables import MARKED, filled
from tried_tables import chosen, rates

import demitasse as dt
from demitasse.host.atomic import new_file
from demitasse.host.bundled import corpus
from demitasse.host.json_files import save_result
from demitasse.host.machine import cores, processor

ROOT = Path(__file__).parents[1]
TEMPLATE = Path(__file__).with_suffix(".md")
ROUNDS = 7
NOT_SEARCH = ("sts", "stsb-dev", "sick-trial")
Writer = Callable[[], list[str]]


def pictures(files: Sequence[File]) -> list[Picture]:
    """Every figure there are results for."""
    found = []
    for model in backbones(files):
        found.append(by_layer(model))
        found += [by_time(model, dict(file.plain)) for file in of_kind(files, model.name, "time")]
        if any(HOTPOT in tables for row in model.rows for tables in row.tables):
            found.append(search(model))
    return found


def image(drawn: Sequence[Picture], name: str) -> list[str]:
    return [f"![{one.about}](figures/{one.name}.svg)" for one in drawn if one.name == name]


def command(files: Sequence[File]) -> list[str]:
    """What makes these files; those that differ in their seed alone are one loop."""
    lines = []
    for _, alike in groupby(files, key=lambda file: json.dumps([_arguments(file), _target(file, "$seed")])):
        group = list(alike)
        words, seeds = _arguments(group[0]), [str(file.seed) for file in group]
        if len(group) > 1:
            end = ["--seed $seed", f"--json {_target(group[0], '$seed')}"]
            lines += [f"for seed in {' '.join(seeds)}; do", *_wrapped([*words, *end], "    "), "done"]
        else:
            lines += _wrapped([*words, f"--seed {seeds[0]}", f"--json {_target(group[0], seeds[0])}"])
    return ["```bash", *lines, "```"] if lines else []


def _arguments(file: File) -> list[str]:
    """Everything but the seed and the file."""
    common, sources = file.plain["common"], file.plain["data"]
    words = [f"python research/compare_objectives.py {TITLES[file.backbone]}"]
    first, *rest = [shlex.quote(source["name"]) for source in sources]
    words += [f"--train {first}", *rest]
    if any(source["weight"] != source["rows"] for source in sources):
        words.append("--weights " + " ".join(f"{source['weight']:g}" for source in sources))
    tasks = dict.fromkeys(name.partition("/")[0] for name in file.runs[0].tables if "@" not in name)
    words.append("--data DATA --search " + " ".join(name for name in tasks if name not in NOT_SEARCH))
    words += [f"--run {shlex.quote(run.text)}" for run in file.runs]
    return [*words, *(f"--{name} {common[name]:g}" for name in ("steps", "batch", "rate"))]


def _target(file: File, seed: str) -> str:
    return f"research/results/paper/{re.sub('-seed.*', f'-seed{seed}', file.name)}.json"


def _wrapped(words: Sequence[str], before: str = "") -> list[str]:
    lines = [before + words[0]]
    for word in words[1:]:
        if len(lines[-1]) + len(word) > 112:
            lines[-1] += " \\"
            lines.append(f"{before}    {word}")
        else:
            lines[-1] += f" {word}"
    return lines


def time_tables(files: Sequence[File], drawn: Sequence[Picture]) -> list[str]:
    """Milliseconds by layers, the figure, and how they were measured."""
    lines: list[str] = []
    for file in (file for file in files if file.kind == "time"):
        plain = file.plain
        times = {int(layers): value for layers, value in plain["milliseconds_a_text"].items()}
        whole = times[max(times)]
        shown = few(times)
        rows = [
            ["milliseconds per text", *(f"{times[layers]:.3g}" for layers in shown)],
            ["speed-up over all layers", *(f"{whole / times[layers]:.1f}" for layers in shown)],
        ]
        how = (
            f"{TITLES[file.backbone]} with {plain['exits']} exits, {plain['texts']} sentences of "
            f"{plain['mean_words']:.0f} words on average, {plain['place']} ({plain['processor']}, {plain['cores']} "
            f"cores), demitasse {plain['demitasse']}: median of {plain['rounds']} rounds in which every number of "
            "layers had its turn, all texts having been encoded once before."
        )
        lines += [*paragraph(how), "", *table(["layers", *map(str, shown)], rows), ""]
        picture = image(drawn, f"{file.backbone}-time")
        lines += [*picture, ""] if picture else []
        lines += ["```bash", f"python research/results_page.py --time MODEL --backbone {file.backbone}", "```", ""]
    return lines[:-1]


def writers(files: Sequence[File]) -> dict[str, Writer]:
    """What stands between each pair of marks; nothing where there are no results."""
    drawn = pictures(files)
    known = backbones(files)
    models = {model.name: model for model in known}
    found: dict[str, Writer] = {
        "brief": lambda: brief(known) if known else [],
        "files": partial(files_table, files),
        "data": partial(data, files),
        "separate": lambda: _each(known, separate),
        "ablations": lambda: _each(known, lambda model: ablations(model, of_kind(files, model.name, "ablations"))),
        "rates": lambda: _each(known, lambda model: rates(model, of_kind(files, model.name, "rates"))),
        "chosen": lambda: _each(known, lambda model: chosen(model, of_kind(files, model.name, "rates"))),
        "search": lambda: _search(known, drawn),
        "time": lambda: time_tables(files, drawn),
    }
    for kind in ("separate", "ablations", "rates"):
        found[f"command {kind}"] = partial(command, [file for file in files if file.kind == kind])
    for name in TITLES:
        model = models.get(name)
        found[f"main {name}"] = partial(main_table, model) if model else list
        found[f"best {name}"] = partial(best, model, of_kind(files, name, "rates")) if model else list
        found[f"layers {name}"] = partial(image, drawn, f"{name}-layers")
        found[f"command {name}"] = partial(command, model.files) if model else list
    return found


def _each(models: Sequence[Backbone], lines: Callable[[Backbone], list[str]]) -> list[str]:
    """The lines of each model that has any, with its name where there are several."""
    found = [(model, lines(model)) for model in models]
    kept = [(model, own) for model, own in found if own]
    named = len(kept) > 1
    parts = [[*([f"**{model.title}**", ""] if named else []), *own] for model, own in kept]
    return [line for part in parts for line in (*part, "")][:-1]


def _search(models: Sequence[Backbone], drawn: Sequence[Picture]) -> list[str]:
    """The figure and the tables of each model, all but the first folded away: they are long."""
    lines: list[str] = []
    for model in models:
        tables = search_tables(model)
        if tables:
            shown = [*image(drawn, f"{model.name}-search"), "", *tables]
            folded = ["", "<details>", f"<summary>{model.title}</summary>", "", *shown, "", "</details>"]
            lines += folded if lines else [f"**{model.title}**", "", *shown]
    return lines


def page(files: Sequence[File], template: str) -> str:
    """The whole page: the prose, with every table and without the sections that have none."""
    every = writers(files)
    start, *sections = re.split(r"(?=^## )", template, flags=re.MULTILINE)
    kept = [one for one in sections if all(every[name]() for _, name in MARKED.findall(one))]
    titles = [section.partition("\n")[0].removeprefix("## ") for section in kept]
    anchors = [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]
    every["contents"] = lambda: [f"- [{title}](#{place})" for title, place in zip(titles, anchors, strict=True)]
    return filled("".join([start, *kept]), every)


def stale(files: Sequence[File], path: Path) -> list[str]:
    """What is not as the results have it."""
    if not files:
        return [path.name] if path.exists() else []
    wanted = page(files, TEMPLATE.read_text(encoding="utf-8"))
    drawn = pictures(files)
    folder = path.parent / "figures"
    wrong = [] if path.is_file() and path.read_text(encoding="utf-8") == wanted else [path.name]
    wrong += [f"{one.name}.svg" for one in drawn if not one.current(folder)]
    names = {f"{one.name}.svg" for one in drawn}
    return wrong + [left.name for left in sorted(folder.glob("*.svg")) if left.name not in names]


def write(files: Sequence[File], path: Path) -> None:
    if not files:
        raise SystemExit("there is no file in research/results/paper; research/compare_objectives.py writes them")
    wanted, drawn = page(files, TEMPLATE.read_text(encoding="utf-8")), pictures(files)
    for one in drawn:
        one.save(path.parent / "figures" / f"{one.name}.svg")
    with new_file(path) as file:
        file.write(wanted.encode())


def timed(model: str) -> dict[str, object]:
    """Milliseconds a text at each number of layers, taken in turns so that a busy minute meets all of them."""
    encoder, texts = dt.load(model), corpus()
    counts = range(encoder.full.layers + 1)
    cuts = {count: encoder.cut(layers=count) for count in counts}
    for cut in cuts.values():  # opens what is opened late; every word has been met after this
        cut.encode(texts, progress=False)
    times: dict[int, list[float]] = {count: [] for count in counts}
    for turn in range(ROUNDS):
        for count in counts if turn % 2 else reversed(counts):
            begun = time.perf_counter()
            cuts[count].encode(texts, progress=False)
            times[count].append(1000 * (time.perf_counter() - begun) / len(texts))
    return {
        "demitasse": dt.__version__,
        "exits": len(encoder.exit_depths),
        "place": encoder.place,
        "processor": processor(),
        "cores": cores(),
        "texts": len(texts),
        "mean_words": round(statistics.fmean(len(text.split()) for text in texts), 2),
        "rounds": ROUNDS,
        "milliseconds_a_text": {str(count): round(statistics.median(times[count]), 4) for count in counts},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--time", metavar="MODEL")
    parser.add_argument("--backbone", choices=TITLES, default="minilm", help="what MODEL was made from")
    parser.add_argument("--results", type=Path, default=ROOT / "research" / "results" / "paper")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "results.md", help="its figures are beside it")
    options = parser.parse_args()
    if options.time:
        save_result(timed(options.time), options.results / f"{options.backbone}-time.json")
        return
    files = read_files(options.results)
    if not options.check:
        write(files, options.page)
    elif wrong := stale(files, options.page):
        raise SystemExit(f"{', '.join(wrong)}: not what {options.results} holds; run python research/results_page.py")


if __name__ == "__main__":
    main()
