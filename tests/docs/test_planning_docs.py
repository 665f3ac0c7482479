"""docs/planning.md does what it says: its options and fields exist, all of them are there, and its code runs."""

from __future__ import annotations

import inspect
import json
import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import typer
import zoo
from paths import ROOT
from profiles import made_profile

import demitasse as dt
from demitasse.cli.app import app, main
from demitasse.cli.measure import measure
from demitasse.planning.agreement import LEAST_TEXTS, NEIGHBOURS, PAIRS, TEXTS
from demitasse.planning.budget import ORDER
from demitasse.planning.profile_json import as_plain

PAGE = (ROOT / "docs" / "planning.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


def names_in(part: str) -> set[str]:
    """The names in the first column of the first table of a part of the page."""
    rows = part.split("|---|---|\n", 1)[1].split("\n\n")[0].splitlines()
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])}


def options(command: str) -> set[str]:
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    return {name for one in group.commands[command].params for name in one.opts if name[:2] == "--"} - {"--help"}


@pytest.mark.parametrize("command", ["measure", "plan", "check"])
def test_every_option_has_a_row_and_exists(command: str) -> None:
    listed = names_in(PAGE.split(f"| option of `{command}` | meaning |")[1])
    assert listed - {"MODEL", "PROFILE"} == options(command)


def test_every_field_of_the_file_has_a_row(tmp_path: Path) -> None:
    found = as_plain(replace(made_profile(), others=(replace(made_profile().full, name="other"),)))
    assert names_in(PAGE.split("write one profile:")[1]) == set(found)
    assert names_in(PAGE.split("\nA row has\n")[1]) == set(found["others"][0])
    made = dt.measure(options=dt.MeasureOptions(cuts=[dt.Cut(0, 32)], vectors=["float32"], rounds=2, seconds=1)).made
    assert names_in(PAGE.split("\nand `made`, which")[1]) == set(made)


def test_every_field_of_a_plan_is_told(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    made_profile().save("profile.json")
    app(["plan", "profile.json", "--latency-ms", "1", "--json"], standalone_mode=False)
    told = PAGE.split("The JSON of `plan` has")[1].split("\n\n")[0]
    assert set(json.loads(capfd.readouterr().out)) == set(re.findall(r"`(\w+)`", told)) - {"null"}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("\n".join(zoo.sentences(60)))
    return tmp_path


def test_its_python_runs(place: Path) -> None:
    names: dict[str, object] = {}
    for block in blocks("python"):
        exec(block, names)
    assert (place / "report.html").is_file()
    assert names["again"] == names["profile"]


def test_its_commands_run(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (lines,) = blocks("bash")
    # What takes long is shortened; everything else is run as it stands.
    few = dt.MeasureOptions(cuts=dt.grid([3, 6], [64, 128]), rounds=2, seconds=1)
    short = dt.measure
    monkeypatch.setattr(
        "demitasse.planning.measure.measure",
        lambda encoder, tasks, *, texts, options, compare: short(encoder, tasks, texts=texts, options=few),
    )
    budget = "--latency-ms 5"  # which a busy machine may not keep
    for line in lines.splitlines():
        monkeypatch.setattr(sys, "argv", shlex.split(line.replace(budget, "--latency-ms 5000")))
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 0, line
    assert dt.load("small").full.dims <= 512
    assert (place / "report.html").is_file()


def test_the_workflow_calls_what_there_is() -> None:
    (workflow,) = blocks("yaml")
    joined = re.sub(
        r"- run: >\n((?: {10}.*\n)+)", lambda found: "- run: " + " ".join(found[1].split()) + "\n", workflow
    )
    calls = [shlex.split(line) for line in re.findall(r"- run: (demitasse .*)", joined)]
    assert [call[1] for call in calls] == ["measure", "check"]
    for call in calls:
        assert {word for word in call if word[:2] == "--"} <= options(call[1])


def test_the_numbers_it_tells_are_those_of_the_code() -> None:
    told = " ".join(PAGE.split())
    assert f"up to {PAIRS:,} pairs" in told
    assert f"At least {LEAST_TEXTS} different texts are needed; up to {TEXTS:,} are looked at" in told
    assert NEIGHBOURS == 10
    assert ORDER == ("latency", "vectors", "model", "speed", "quality")
    defaults = {name: one.default for name, one in inspect.signature(measure).parameters.items()}
    for name in ("batch", "rounds", "seconds"):
        assert defaults[name] == getattr(dt.MeasureOptions(), name)


def test_lines_are_short_and_links_lead_somewhere() -> None:
    assert [line for line in PAGE.splitlines() if len(line) > 120 and line[0] != "|"] == []
    headings = re.findall(r"^#+ (.*)$", PAGE, flags=re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    for target in re.findall(r"\]\(([^)]+)\)", PAGE):
        assert target[1:] in anchors if target.startswith("#") else (ROOT / "docs" / target).exists(), target
