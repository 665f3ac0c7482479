"""How far our losses and objectives are from what they re-implement: the largest relative difference of each.

    python research/objective_parity.py --json research/results/objective-parity.json

Three comparisons: a slow reference in double precision (tests/helpers/references.py), the losses of the installed
sentence-transformers on tiny models, and numbers made with the real angle-emb
(tests/helpers/golden/angle_emb.json). The cases are those of the tests.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from unittest import mock

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))

import angle_emb
import loss_cases
import objective_cases
import sentence_transformers_cases as library_cases
import zoo
from references import difference

REFERENCE, LIBRARY, ANGLE = "reference", "sentence-transformers", "angle-emb golden"
Table = dict[str, dict[str, float]]


def family(name: str) -> str:
    """`infonce` of `infonce, both ways`."""
    return name.partition(",")[0]


def add(table: Table, column: str, name: str, pairs: Iterable[tuple[object, object]]) -> None:
    worst = max(difference(ours, other) for ours, other in pairs)
    table[name][column] = max(worst, table[name].get(column, 0.0))


def with_references(table: Table) -> None:
    for name, case in {**loss_cases.LOSSES, **objective_cases.COMPRESSIONS}.items():
        add(table, REFERENCE, family(name), [case()])
    for name in loss_cases.PAIR_LOSSES:
        add(table, REFERENCE, family(name), [loss_cases.pair_loss(name)])
    for name, cases in objective_cases.OBJECTIVES.items():
        add(table, REFERENCE, name, (case() for case in cases))
    add(table, REFERENCE, "Elastic", (case() for case in objective_cases.ELASTIC.values()))


def with_sentence_transformers(table: Table) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        for normalize in (True, False):
            folder = zoo.write_folder(Path(temporary) / str(normalize), normalize=normalize)
            for name, case in library_cases.CASES.items():
                ours = "angle" if name.startswith("AnglE") else family(name)
                add(table, LIBRARY, ours, library_cases.compared(case, folder))


def with_angle_emb(table: Table) -> None:
    names = {"cosine": "cosent", "angle": "angle", "in": "labelled_infonce", "contrastive": "infonce"}
    for name, ours, golden in angle_emb.golden_losses():
        add(table, ANGLE, names[name.split()[1].partition("_")[0]], [(ours, golden)])
    for _, ours, golden in angle_emb.golden_mixes():
        add(table, ANGLE, "AnglE", [(ours, golden)])
    for _, ours, golden in angle_emb.golden_alignments():
        add(table, ANGLE, "Published", [(ours, golden)])
    with mock.patch("demitasse.objectives.compression.published_target", angle_emb.GoldenTargets()):
        for _, loss, case in angle_emb.golden_ese():
            add(table, ANGLE, "EspressoReleased", [(loss()[0].item(), case["loss"])])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    table: Table = defaultdict(dict)
    with_references(table)
    with_sentence_transformers(table)
    with_angle_emb(table)
    columns = (REFERENCE, LIBRARY, ANGLE)
    print(f"{'':24}" + "".join(f"{column:>24}" for column in columns))
    for name, row in table.items():
        cells = [f"{row[column]:.1e}" if column in row else "-" for column in columns]
        print(f"{name:24}" + "".join(f"{cell:>24}" for cell in cells))
    if options.json:
        versions = {name: version(name) for name in ("sentence-transformers", "torch", "transformers")}
        report = {
            "made_by": "research/objective_parity.py",
            "versions": {**versions, "angle_emb": angle_emb.GOLDEN["versions"]["angle_emb"]},
            "largest_relative_difference": {
                name: {column: float(f"{row[column]:.2g}") if column in row else "-" for column in columns}
                for name, row in table.items()
            },
        }
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
