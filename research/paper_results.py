"""The files of research/results/paper as rows of scores: what results_page.py and results_figures.py are made from.

A file is BACKBONE[-KIND][-seedN].json, written by research/compare_objectives.py. Without a kind it holds the rows
that are compared; `ablations` and `rates` hold what else was tried, `separate` models that were cut to `layers=K`
before they were trained, `time` what research/results_page.py --time measured.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

TITLES = {"minilm": "all-MiniLM-L6-v2", "mpnet": "all-mpnet-base-v2", "smollm": "SmolLM2-135M-Instruct"}
KINDS = ("ablations", "rates", "separate", "time")
SEPARATE = "separate"
# In the order of the tables.
METHODS = {
    "none": "RAW",
    "matryoshka": "MRL",
    "2dmse": "2DMSE",
    "espresso": "ESE (paper)",
    "espresso-released": "ESE (released code)",
    "starbucks": "Starbucks",
    "adaptive-layer": "AdaptiveLayer",
    "matryoshka2d": "Matryoshka2d",
    SEPARATE: "separate models",
    "fit": "fitted exits",
    "elastic": "Elastic",
}
ESE = ("espresso", "espresso-released")
STS, DEV, TRIAL, HOTPOT = "sts/same", "stsb-dev/same", "sick-trial/same", "hotpotqa-500/same"
_NAME = re.compile(rf"({'|'.join(TITLES)})(?:-({'|'.join(KINDS)}))?(?:-seed\d+)?")
# What a changed field or option means, where its name does not say it.
_WORDS = {
    "espresso compress=none": "learn-to-express only",
    "espresso compress=principal": "well-posed learn-to-compress",
    "espresso express=false": "learn-to-compress only",
    "espresso-released compress=false": "learn-to-express only",
    "elastic tune=0": "teacher: the model as released",
    "elastic keep=0": "no pair loss beside the distillation",
    "elastic anchor=0": "no anchor",
    "elastic exits=false": "no exits",
    "elastic distil=0": "no distillation of similarities",
    "elastic contrast=1": "the pair loss at every cut",
    "elastic back=0.2": "a fifth of the tuned weights mixed back in",
    "matryoshka2d layers_per_step=-1": "all layers at every step, not one that is drawn",
    "starbucks sizes=1x384/2x384/3x384/4x384/5x384": "every layer at full width, not every second one",
    "optimizer=adamw": "AdamW",
    "optimizer=muon": "Muon",
}
Tables = Mapping[str, Mapping[str, float]]  # by task and kind, then by cut


@dataclass(frozen=True)
class Run:
    """One trained model: `text` is what `--run` was given."""

    text: str
    objective: Mapping[str, Any] | None
    tables: Tables

    @property
    def method(self) -> str:
        """The key of `METHODS`."""
        return SEPARATE if self.layers else self.text.split()[0].partition(":")[0]

    @property
    def layers(self) -> int | None:
        """To how many layers the model was cut before it was trained; `None`: it was not."""
        found = [change.partition("=")[2] for change in self.changes if change.startswith("layers=")]
        return int(found[0]) if found else None

    @cached_property
    def changes(self) -> list[str]:
        """The fields of the objective and the options of the run that were given, as key=value."""
        first, *rest = self.text.split()
        return [*filter(None, first.partition(":")[2].split(",")), *rest]

    def words(self, known: Sequence[str] = ()) -> str:
        """The changes for people; those from a run with the changes `known`, if there is one."""
        new = [change for change in self.changes if change not in known]
        found = [
            _WORDS.get(f"{self.method} {change}") or _WORDS.get(change) or change.replace("=", " ") for change in new
        ]
        own = [change.partition("=")[0] for change in self.changes]
        left = [key for key in (change.partition("=")[0] for change in known) if key not in own]
        return ", ".join([*found, *(f"the default {key}" for key in left)])

    @property
    def training(self) -> Any:
        """What decides the result besides data, steps, batch and seed: two runs that share it are the same one."""
        if self.objective is None or "options" not in self.objective:
            return self.text
        options = self.objective["options"]
        kept = {key: options.get(key) for key in ("rate", "exit_rate", "embedding_rate", "optimizer", "loss", "lora")}
        if self.method != "elastic":  # whose stages have different defaults
            kept["optimizer"] = kept["optimizer"] or "adamw"
        return {**self.objective, "options": kept}


@dataclass(frozen=True)
class File:
    """One file of research/results/paper."""

    name: str
    backbone: str
    kind: str | None
    plain: Mapping[str, Any]

    @property
    def seed(self) -> int:
        return int(self.plain["common"]["seed"])

    @property
    def setting(self) -> object:
        """What must be alike for two files to be compared."""
        sources = [(source["sha256"], source["weight"]) for source in self.plain["data"]]
        return sources, [self.plain["common"][key] for key in ("steps", "batch")]

    @cached_property
    def runs(self) -> list[Run]:
        return [Run(run["run"], run["objective"], run["scores"]) for run in self.plain["runs"]]


@dataclass(frozen=True)
class Cell:
    """A score: its mean over seeds, and their standard deviation where there are several that differ."""

    mean: float
    spread: float = 0.0

    @classmethod
    def of(cls, values: Sequence[float]) -> Cell:
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0)

    def __str__(self) -> str:
        # Spaces that do not break, for narrow columns.
        return (
            f"{self.mean:.1f}\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}{self.spread:.1f}"
            if self.spread
            else f"{self.mean:.1f}"
        )


@dataclass(frozen=True)
class Row:
    """One row of a table: the same run with one seed or several."""

    method: str
    label: str
    by_seed: Mapping[int, Tables]

    @property
    def tables(self) -> list[Tables]:
        return list(self.by_seed.values())

    def cell(self, table: str, cuts: Iterable[str]) -> Cell | None:
        """The mean over `cuts`, or `None` if one of them was not measured."""
        wanted = list(cuts)
        if not wanted or any(cut not in tables.get(table, {}) for tables in self.tables for cut in wanted):
            return None
        return Cell.of([statistics.fmean(tables[table][cut] for cut in wanted) for tables in self.tables])


@dataclass(frozen=True)
class Backbone:
    """One model: the rows that are compared, and the files they come from."""

    name: str
    files: Sequence[File]
    separate_files: Sequence[File]
    rows: Sequence[Row]
    layers: int
    dims: int

    @property
    def title(self) -> str:
        return TITLES[self.name]

    @cached_property
    def widths(self) -> list[int]:
        """The dims that were measured, fewest first."""
        found = {cut.split("x")[1] for row in self.rows for tables in row.tables for cut in tables[STS]}
        return sorted(int(dims) for dims in found)

    @property
    def shallow(self) -> range:
        """What the paper of ESE means by "< Avg"."""
        return range(1, self.layers)

    def cuts(self, layers: Iterable[int], dims: int) -> list[str]:
        return [f"{count}x{dims}" for count in layers]

    def first(self, method: str) -> Row | None:
        return next((row for row in self.rows if row.method == method), None)


def read_files(folder: Path) -> list[File]:
    """The files in `folder` in the order of their backbones; none if there is no such folder."""
    found = []
    for path in sorted(folder.glob("*.json")):
        named = _NAME.fullmatch(path.stem)
        if named is None:
            raise SystemExit(
                f"{path.name} has no place on the page; call it BACKBONE[-KIND][-seedN].json, "
                f"with one of {', '.join(TITLES)} and of {', '.join(KINDS)}"
            )
        found.append(File(path.stem, named[1], named[2], json.loads(path.read_text(encoding="utf-8"))))
    return sorted(found, key=lambda file: list(TITLES).index(file.backbone))


def backbone(files: Sequence[File], name: str) -> Backbone | None:
    """The rows of one backbone, seeds together; `None` if nothing was compared on it."""
    mine = [file for file in files if file.backbone == name]
    main = [file for file in mine if file.kind is None]
    if not main:
        return None
    compared = [file for file in mine if file.kind in (None, SEPARATE)]
    for file in compared:
        if file.setting != compared[0].setting:
            raise SystemExit(
                f"{file.name} and {compared[0].name} differ in steps, batch or data; compare like with like"
            )
    by_text: dict[str, dict[int, Tables]] = {}
    methods: dict[str, str] = {}
    for file in main:
        for run in file.runs:
            if run.method not in METHODS:
                raise SystemExit(f"{file.name} has {run.text!r}, which has no row; known are {', '.join(METHODS)}")
            by_text.setdefault(run.text, {})[file.seed] = run.tables
            methods[run.text] = run.method
    rows = [
        Row(method, METHODS[method] + (f" `{text}`" if list(methods.values()).count(method) > 1 else ""), by_text[text])
        for text, method in methods.items()
    ]
    apart = of_kind(files, name, SEPARATE)
    separate = {file.seed: separate_tables(file) for file in apart}
    if separate:
        rows.append(Row(SEPARATE, METHODS[SEPARATE], separate))
    rows.sort(key=lambda row: list(METHODS).index(row.method))
    layers, dims = max(tuple(map(int, cut.split("x"))) for tables in by_text.values() for cut in _cuts(tables))
    return Backbone(name, main, apart, rows, layers, dims)


def backbones(files: Sequence[File]) -> list[Backbone]:
    """Every model that something was compared on."""
    return [model for model in (backbone(files, name) for name in TITLES) if model]


def separate_tables(file: File) -> dict[str, dict[str, float]]:
    """Each model at its own number of layers, as if all were one."""
    merged: dict[str, dict[str, float]] = {}
    for run in file.runs:
        for table, scores in run.tables.items():
            own = {cut: score for cut, score in scores.items() if cut.startswith(f"{run.layers}x")}
            merged.setdefault(table, {}).update(own)
    return merged


def of_kind(files: Sequence[File], name: str, kind: str) -> list[File]:
    return [file for file in files if (file.backbone, file.kind) == (name, kind)]


def by_method(files: Sequence[File]) -> Mapping[str, list[Run]]:
    """The runs of all files by what they trained with, in the order of the tables."""
    runs = [run for file in files for run in file.runs]
    return {method: own for method in METHODS if (own := [run for run in runs if run.method == method])}


def few(counts: Iterable[int]) -> list[int]:
    """All `counts` if they are few, else every second or third so that the last is one of them: what has room."""
    found = sorted(counts)
    return found[:: -(1 + len(found) // 14)][::-1]


def _cuts(by_seed: Mapping[int, Tables]) -> Iterable[str]:
    return (cut for tables in by_seed.values() for cut in tables[STS])
