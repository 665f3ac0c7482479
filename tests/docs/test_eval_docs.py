"""docs/evaluation.md does what it says: its options and fields exist, all of them are there, and its code runs."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from evaluations import evaluation
from paths import ROOT

from demitasse.cli.app import app
from demitasse.evaluation.evaluation_json import as_plain, comparison
from demitasse.evaluation.task_files import read_tasks
from demitasse.evaluation.tasks import PairTask

PAGE = (ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


def table_after(line: str) -> set[str]:
    """The names in the first column of the table that follows."""
    rows = PAGE.split(line, 1)[1].split("|---|---|\n", 1)[1].split("\n\n")[0].splitlines()
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])}


def test_every_option_has_a_row_and_exists() -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    options = {name for parameter in group.commands["eval"].params for name in parameter.opts if name[:2] == "--"}
    assert table_after("| option | meaning |") - {"MODEL"} == options - {"--help"}
    for line in blocks("bash")[0].splitlines():
        assert {word for word in shlex.split(line) if word[:2] == "--"} <= options


def test_every_field_of_the_file_has_a_row() -> None:
    found = as_plain(evaluation())
    assert table_after("write one evaluation:") == set(found)
    assert table_after("A task has") == set(found["tasks"][0])
    assert table_after("\nand a score\n") == set(found["scores"][0])
    both = comparison([evaluation(), evaluation(1.0)])
    last = PAGE.split("With `--compare` the file has")[1]
    assert {*both, *both["differences"][0]} <= set(re.findall(r"`(\w+)`", last))


def test_its_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks("python"):
        exec(block, names)
    assert json.loads(Path("grid.json").read_text())["kind"] == "evaluation"


def test_its_table_is_what_was_measured() -> None:
    script = ROOT / "benchmarks" / "eval_speed.py"
    check = subprocess.run([sys.executable, script, "--table", "--check"], capture_output=True, text=True, check=False)
    assert check.returncode == 0, check.stderr


def test_it_tells_the_size_of_the_sample() -> None:
    pairs, search = read_tasks(["sample"])
    assert isinstance(pairs, PairTask)
    assert not isinstance(search, PairTask)
    said = f"{len(pairs.left)} pairs, and {len(search.queries)} questions over {len(search.documents)} sentences"
    assert said in " ".join(PAGE.split())


def test_lines_are_short_and_links_lead_somewhere() -> None:
    assert [line for line in PAGE.splitlines() if len(line) > 120 and line[0] != "|"] == []
    anchors = {heading.lower().replace(" ", "-") for heading in re.findall(r"^#+ (.*)$", PAGE, flags=re.MULTILINE)}
    assert {target[1:] for target in re.findall(r"\]\((#[^)]+)\)", PAGE)} <= anchors
