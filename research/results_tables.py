"""The tables of docs/results.md, and the sentences that are made of numbers."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from paper_results import (
    DEV,
    ESE,
    HOTPOT,
    METHODS,
    SEPARATE,
    STS,
    TITLES,
    Backbone,
    Cell,
    File,
    Row,
    Run,
    by_method,
)

Column = tuple[str, str, list[str]]  # its heading, the table it is from, the cuts that it is the mean of
METRICS = {  # of the search, in the order of the page
    "hotpotqa-500/same": "nDCG@10",
    "hotpotqa-500 recall@10/same": "Recall@10",
    "hotpotqa-500 all@10/same": "Both gold paragraphs in the first 10",
    "hotpotqa-500 answer@5/same": "Answer in the first 5",
    "hotpotqa-500 answer@10/same": "Answer in the first 10",
    "hotpotqa-500/against_full": "nDCG@10, documents at all layers: only the question is cut to fewer",
}


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(cells)} |" for cells in (headings, *rows)]
    return [lines[0], "|" + "---|" * len(headings), *lines[1:]]


def paragraph(text: str) -> list[str]:
    return textwrap.wrap(text, 120, break_long_words=False, break_on_hyphens=False)


def files_table(files: Sequence[File]) -> list[str]:
    """What each file is: how long, how large, where."""
    rows = []
    for file in (file for file in files if "runs" in file.plain):
        common, hours = file.plain["common"], sum(run["seconds"] for run in file.plain["runs"]) / 3600
        counts = [str(len(file.runs)), *(f"{common[key]:g}" for key in ("steps", "batch", "rate", "seed"))]
        where = [file.plain["device"], f"{hours:.1f}", file.plain["demitasse"]]
        rows.append([f"`research/results/paper/{file.name}.json`", TITLES[file.backbone], *counts, *where])
    headings = ["file", "model", "runs", "steps", "batch", "rate, unless a run has its own", "seed", "device", "hours"]
    return table([*headings, "demitasse"], rows) if rows else []


def data(files: Sequence[File]) -> list[str]:
    """The training files; once for all results that share them."""
    sets: dict[str, list[str]] = {}
    for file in (file for file in files if "data" in file.plain):
        total = sum(source["weight"] for source in file.plain["data"])
        rows = [
            [f"`{s['name']}`", s["kind"], f"{s['rows']:,}", f"{s['weight'] / total:.0%}", f"`{s['sha256'][:12]}`"]
            for s in file.plain["data"]
        ]
        written = "\n".join(table(["file", "kind", "rows", "share of the batches", "sha256"], rows))
        sets.setdefault(written, []).append(f"`{file.name}`")
    if len(sets) == 1:
        return next(iter(sets)).splitlines()
    parts = [[*paragraph(f"{', '.join(names)}:"), "", *written.splitlines(), ""] for written, names in sets.items()]
    return [line for part in parts for line in part][:-1]


def whole_and_below(
    model: Backbone, name: str, *, whole: str = "all layers", below: str = "", widths: Sequence[int] = (128, 32)
) -> list[Column]:
    """All layers, and the mean of those below at all dims and at `widths`, where they were measured."""
    last, full = model.layers, model.dims
    widths = [dims for dims in reversed(model.widths) if dims in (full, *widths)]
    means = [(f"{below}1 to {last - 1}, {dims} dims", name, model.cuts(model.shallow, dims)) for dims in widths]
    return [(whole, name, model.cuts([last], full)), *means]


def main_columns(model: Backbone) -> list[Column]:
    """All layers, the mean of those below at three widths, some of them, and the search."""
    last, full = model.layers, model.dims
    columns = whole_and_below(model, STS, below="mean of ")
    for count in sorted({0, 1, 3, last // 2}):
        if count < last:
            columns.append((f"{count} layer{'s' * (count != 1)}", STS, model.cuts([count], full)))
    for table_name, name in ((HOTPOT, "hotpotqa-500"), ("scifact/same", "scifact")):
        columns.append((name, table_name, [f"{last}x{full}"]))
        columns.append((f"{name} at 3x128", table_name, ["3x128"]))
    return [column for column in columns if any(row.cell(*column[1:]) for row in model.rows)]


def main_table(model: Backbone) -> list[str]:
    """Every row, the best of each column bold."""
    columns = main_columns(model)
    cells = [[row.cell(name, cuts) for _, name, cuts in columns] for row in model.rows]
    rows = [[row.label, *own, str(len(row.by_seed))] for row, own in zip(model.rows, bold_best(cells), strict=True)]
    return table([f"{model.layers}x{model.dims}", *(heading for heading, _, _ in columns), "seeds"], rows)


def brief(models: Sequence[Backbone], widths: Sequence[int] = (32,)) -> list[str]:
    """The main tables of several models in one: all layers, and the mean of those below at all dims and at `widths`."""
    columns = [
        (model, column)
        for model in models
        for column in whole_and_below(model, STS, whole=f"{model.title}, all {model.layers} layers", widths=widths)
    ]
    cells = {}
    for method, label in METHODS.items():
        rows = [(model.first(method), column) for model, column in columns]
        own = [row.cell(name, cuts) if row else None for row, (_, name, cuts) in rows]
        if any(own):
            cells[label] = own
    texts = zip(cells, bold_best(list(cells.values())), strict=True)
    return table(["", *(heading for _, (heading, _, _) in columns)], [[label, *own] for label, own in texts])


def bold_best(cells: Sequence[Sequence[Cell | None]]) -> list[list[str]]:
    """The cells as text; the highest mean of each column is bold."""
    highest = [max((cell.mean for cell in column if cell), default=0.0) for column in zip(*cells, strict=True)]
    return [
        [
            "-" if cell is None else f"**{cell}**" if cell.mean == most and len(cells) > 1 else str(cell)
            for cell, most in zip(row, highest, strict=True)
        ]
        for row in cells
    ]


def best(model: Backbone, tried: Sequence[File] = ()) -> list[str]:
    """Which row is best at how many cuts, every cut at which that is one of ESE, and who could be at the last."""
    lines: list[str] = []
    for name, what in ((STS, "the seven STS tests"), (HOTPOT, "hotpotqa-500")):
        ranked = _ranked(model, name)
        if not ranked:
            continue
        wins: dict[str, int] = {}
        for rows in ranked.values():
            wins[rows[0][0].label] = wins.get(rows[0][0].label, 0) + 1
        counts = sorted(wins.items(), key=lambda item: -item[1])
        text = f"On {what}, among the rows that are one model, the winners at the {len(ranked)} cuts are "
        text += ", ".join(f"{label} at {count}" for label, count in counts) + ". "
        ours = {cut: rows for cut, rows in ranked.items() if rows[0][0].method in ESE}
        if not any(row.method in ESE for row in model.rows):
            text += "No row of ESE was run."
        elif not ours:
            text += "A row of ESE is best at none of them."
        else:
            text += f"A row of ESE is best at {len(ours)}: " + "; ".join(_won(*item) for item in ours.items()) + "."
        lines += [*paragraph(text), ""]
    lines += [*paragraph(_best_at_all_layers(model, tried)), ""] if tried else []
    return lines[:-1]


def _best_at_all_layers(model: Backbone, tried: Sequence[File]) -> str:
    """Each objective with the rate and options that suit the last layer: rows are chosen for all cuts together."""
    found: dict[str, tuple[float, str]] = {}
    for method, runs in by_method(tried).items():
        scores = [(run.tables[DEV][f"{model.layers}x{model.dims}"], run.text) for run in runs if run.layers is None]
        if scores:
            found[METHODS[method]] = max(scores)
    ranked = sorted(found.items(), key=lambda item: -item[1][0])
    listed = ", ".join(f"{label} {score:.1f} (`{text}`)" for label, (score, text) in ranked)
    return (
        "Rows are the best for all cuts together. For all layers alone the choice would differ: of everything that was "
        f"tried (below), the best of each objective on stsb-dev with all layers is {listed}."
    )


def _ranked(model: Backbone, name: str) -> dict[str, list[tuple[Row, Cell]]]:
    """At every cut that all single models have: the rows, best first."""
    single = [row for row in model.rows if row.method != SEPARATE]
    ranked = {}
    for dims in model.widths:
        for cut in model.cuts(range(model.layers + 1), dims):
            cells = [(row, row.cell(name, [cut])) for row in single]
            measured = [(row, cell) for row, cell in cells if cell]
            if len(measured) > 1:
                ranked[cut] = sorted(measured, key=lambda pair: -pair[1].mean)
    return ranked


def _won(cut: str, rows: list[tuple[Row, Cell]]) -> str:
    (first, most), (second, less) = rows[:2]
    return f"{cut} ({first.label} {most}, then {second.label} {less})"


def separate(model: Backbone) -> list[str]:
    """Elastic beside a model of its own for each number of layers."""
    alone, elastic = model.first(SEPARATE), model.first("elastic")
    seeds = [seed for seed in alone.by_seed if seed in elastic.by_seed] if alone and elastic else []
    if not alone or not elastic or not seeds:
        return []
    ours, theirs = (Row(row.method, row.label, {seed: row.by_seed[seed] for seed in seeds}) for row in (elastic, alone))
    columns = [(f"STS, {dims} dims", STS, dims) for dims in reversed(model.widths) if dims in (model.dims, 128, 32)]
    columns += [(f"hotpotqa-500, {dims} dims", HOTPOT, dims) for dims in (model.dims, 128) if dims in model.widths]
    rows = []
    for count in range(model.layers, -1, -1):
        pairs = [(theirs.cell(name, [f"{count}x{d}"]), ours.cell(name, [f"{count}x{d}"])) for _, name, d in columns]
        if any(left and right for left, right in pairs):
            rows.append([str(count), *(_change(left, right) for left, right in pairs)])
    means = [_mean_change(theirs, ours, name, dims, model) for _, name, dims in columns]
    rows.append(["mean of these", *means])
    return table(["layers", *(heading for heading, _, _ in columns)], rows)


def _change(before: Cell | None, after: Cell | None) -> str:
    if before is None or after is None:
        return "-"
    return f"{before} → {after} ({round(after.mean - before.mean, 1) + 0.0:+.1f})"  # + 0.0: no minus before zero


def _mean_change(before: Row, after: Row, name: str, dims: int, model: Backbone) -> str:
    cuts = model.cuts(range(model.layers + 1), dims)
    shared = [cut for cut in cuts if before.cell(name, [cut]) and after.cell(name, [cut])]
    return _change(before.cell(name, shared), after.cell(name, shared))


def ablations(model: Backbone, files: Sequence[File]) -> list[str]:
    """Each objective as in the main table, then what was changed."""
    columns = [column for column in main_columns(model) if " at 3x128" not in column[0] or column[1] == HOTPOT]
    columns += [(f"stsb-dev, mean of 1 to {model.layers - 1}, 128 dims", DEV, model.cuts(model.shallow, 128))]
    rows: list[Sequence[str]] = []
    for file in files:
        methods = sorted({run.method for run in file.runs}, key=list(METHODS).index)
        for method in methods:
            known = [run for run in _main_runs(model, file) if run.method == method]
            seen = [run.training for run in known]
            tried = [run for run in file.runs if run.method == method and run.training not in seen]
            rows += [_ablation(run, columns, f"{METHODS[method]}, as above") for run in known]
            alike = known[0].changes if known else []
            rows += [
                _ablation(run, columns, f"{METHODS[method]}: {run.words(alike) or 'its defaults'}") for run in tried
            ]
    return table(["", *(heading for heading, _, _ in columns)], rows) if rows else []


def _ablation(run: Run, columns: Sequence[Column], label: str) -> list[str]:
    row = Row(run.method, label, {0: run.tables})
    return [label, *(str(row.cell(name, cuts) or "-") for _, name, cuts in columns)]


def _main_runs(model: Backbone, like: File) -> list[Run]:
    """The runs of the main table that had the steps, batch, seed and data of `like`."""
    wanted = (like.setting, like.seed)
    return [run for file in model.files if (file.setting, file.seed) == wanted for run in file.runs]


def search_tables(model: Backbone) -> list[str]:
    """One table for each metric: all layers at fewer dims, all dims at fewer layers."""
    last, full = model.layers, model.dims
    some = range(last) if last <= 8 else sorted({0, 1, 3, last // 4, last // 2, 3 * last // 4})
    cuts = {f"{last}x{dims}": f"{dims} dims" for dims in model.widths if dims >= 64}
    cuts |= {f"{count}x{full}": f"{count} layer{'s' * (count != 1)}" for count in reversed(some)}
    lines: list[str] = []
    for name, metric in METRICS.items():
        cells = {row.label: [row.cell(name, [cut]) for cut in cuts] for row in model.rows}
        measured = {label: own for label, own in cells.items() if any(own)}
        if measured:
            rows = [[label, *own] for label, own in zip(measured, bold_best(list(measured.values())), strict=True)]
            lines += [f"{metric}:", ""]
            lines += [*table(["", *cuts.values()], rows), ""]
    return lines[:-1]
