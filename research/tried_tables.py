"""The tables of docs/results.md of everything that was tried: dev scores, and what was chosen by them."""

from __future__ import annotations

from collections.abc import Sequence

from paper_results import DEV, METHODS, SEPARATE, TRIAL, Backbone, File, Row, Run, by_method
from results_tables import Column, bold_best, paragraph, table, whole_and_below


def rates(model: Backbone, files: Sequence[File]) -> list[str]:
    """Dev scores of all that was tried; the best of each objective bold."""
    columns = dev_columns(model)
    rows: list[Sequence[str]] = []
    for method, runs in by_method(files).items():
        compared = model.separate_files if method == SEPARATE else model.files
        used = [(run.layers, run.training) for file in compared for run in file.runs]
        cells = [[_at_own_depth(run, model).cell(name, cuts) for _, name, cuts in columns] for run in runs]
        for run, own in zip(runs, bold_best(cells), strict=True):
            label = METHODS[method] + (f", {run.layers} layers" if run.layers else "")
            rows.append([label, f"`{run.text}`", *own, "✓" if (run.layers, run.training) in used else ""])
    return table(["", "`--run`", *(heading for heading, _, _ in columns), "used"], rows) if rows else []


def _at_own_depth(run: Run, model: Backbone) -> Row:
    """The scores of a run; for a model that was cut first, its own last layer is all of its layers."""
    if run.layers is None:
        return Row(run.method, "", {0: run.tables})
    last = {
        name: {f"{model.layers}x{model.dims}": scores[f"{run.layers}x{model.dims}"]}
        for name, scores in run.tables.items()
    }
    return Row(run.method, "", {0: last})


def dev_columns(model: Backbone) -> list[Column]:
    """What a choice may be made on."""
    every = [cut for dims in model.widths for cut in model.cuts(range(1, model.layers + 1), dims)]
    columns: list[Column] = []
    for name, label in ((DEV, "stsb-dev"), (TRIAL, "sick-trial")):
        columns += whole_and_below(model, name, whole=f"{label}: all layers")
        columns.append(("all cuts from 1 layer up", name, every))
    return columns


def chosen(model: Backbone, files: Sequence[File]) -> list[str]:
    """How what is used ranks among what was tried."""
    columns = {heading: (name, cuts) for heading, name, cuts in dev_columns(model) if name == DEV}
    parts = []
    for method, runs in by_method(files).items():
        used = {run.text: run for file in model.files for run in file.runs if run.method == method}
        for text, run in used.items():
            if run.training not in [tried.training for tried in runs]:
                parts.append(f"{METHODS[method]}, `{text}`, is not among the {len(runs)} tried")
                continue
            places = []
            for heading in ("all cuts from 1 layer up", "stsb-dev: all layers"):
                own, *others = (
                    Row(method, "", {0: one.tables}).cell(*columns[heading])
                    for one in (next(t for t in runs if t.training == run.training), *runs)
                )
                place = 1 + sum(bool(cell and own and cell.mean > own.mean) for cell in others)
                places.append(place)
            parts.append(f"{METHODS[method]}, `{text}`, {places[0]} and {places[1]} of {len(runs)}")
    if not parts:
        return []
    start = "How the choice ranks among what was tried, on stsb-dev, by all cuts from 1 layer up and by all layers: "
    return paragraph(start + "; ".join(parts) + ".")
