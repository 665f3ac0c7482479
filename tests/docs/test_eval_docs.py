"""docs/evaluation.md says what there is: its options and fields exist, none is missing, and its code runs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from evaluations import evaluation
from pages import blocks, commands, first_column, options, read
from paths import ROOT

from demitasse.evaluation.evaluation_json import as_plain, comparison
from demitasse.evaluation.task_files import read_tasks
from demitasse.evaluation.tasks import PairTask

PAGE = read("docs/evaluation.md")


def test_every_option_has_a_row_and_exists() -> None:
    assert first_column(PAGE, "| option | meaning |") - {"MODEL"} == options("eval")
    for words in commands(PAGE):
        assert {word for word in words if word[:2] == "--"} <= options("eval")


def test_every_field_of_the_file_has_a_row() -> None:
    plain = as_plain(evaluation())
    assert first_column(PAGE, "write one evaluation:") == set(plain)
    assert first_column(PAGE, "A task has") == set(plain["tasks"][0])
    assert first_column(PAGE, "\nand a score\n") == set(plain["scores"][0])
    both = comparison([evaluation(), evaluation(1.0)])
    last = PAGE.split("With `--compare` the file has")[1]
    assert {*both, *both["differences"][0]} <= set(re.findall(r"`(\w+)`", last))


def test_its_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for _, code in blocks(PAGE, "python"):
        exec(code, names)
    assert json.loads(Path("grid.json").read_text())["kind"] == "evaluation"


def test_its_table_is_what_was_measured() -> None:
    script = ROOT / "benchmarks" / "eval_speed.py"
    check = subprocess.run([sys.executable, script, "--table", "--check"], capture_output=True, text=True, check=False)
    assert check.returncode == 0, check.stderr


def test_it_gives_the_size_of_the_sample() -> None:
    pairs, search = read_tasks(["sample"])
    assert isinstance(pairs, PairTask)
    assert not isinstance(search, PairTask)
    for number in (len(pairs.left), len(search.queries), len(search.documents)):
        assert f" {number} " in PAGE
