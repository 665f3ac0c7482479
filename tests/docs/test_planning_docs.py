"""docs/planning.md says what there is: every option, field and number in it exists, and none is missing."""

from __future__ import annotations

import inspect
import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from pages import blocks, first_column, options, read
from profiles import made_profile

import demitasse as dt
from demitasse.cli.app import app
from demitasse.cli.measure import measure
from demitasse.planning.agreement import LEAST_TEXTS, NEIGHBOURS, PAIRS, TEXTS
from demitasse.planning.budget import ORDER
from demitasse.planning.profile_json import as_plain

PAGE = read("docs/planning.md")


@pytest.mark.parametrize("command", ["measure", "plan", "check"])
def test_every_option_has_a_row_and_exists(command: str) -> None:
    listed = first_column(PAGE, f"| option of `{command}` | meaning |")
    assert listed - {"MODEL", "PROFILE"} == options(command)


def test_every_field_of_the_file_has_a_row() -> None:
    plain = as_plain(replace(made_profile(), others=(replace(made_profile().full, name="other"),)))
    assert first_column(PAGE, "write one profile:") == set(plain)
    assert first_column(PAGE, "\nA row has\n") == set(plain["others"][0])
    made = dt.measure(options=dt.MeasureOptions(cuts=[dt.Cut(0, 32)], vectors=["float32"], rounds=2, seconds=1)).made
    assert first_column(PAGE, "\nand `made`, which") == set(made)


def test_every_field_of_a_plan_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    made_profile().save("profile.json")
    app(["plan", "profile.json", "--latency-ms", "1", "--json"], standalone_mode=False)
    listed = PAGE.split("The JSON of `plan` has")[1].split("\n\n")[0]
    assert set(json.loads(capfd.readouterr().out)) == set(re.findall(r"`(\w+)`", listed)) - {"null"}


def test_the_workflow_calls_what_there_is() -> None:
    ((_, workflow),) = blocks(PAGE, "yaml")
    joined = re.sub(
        r"- run: >\n((?: {10}.*\n)+)", lambda lines: "- run: " + " ".join(lines[1].split()) + "\n", workflow
    )
    calls = [shlex.split(line) for line in re.findall(r"- run: (demitasse .*)", joined)]
    assert [call[1] for call in calls] == ["measure", "check"]
    for call in calls:
        assert {word for word in call if word[:2] == "--"} <= options(call[1])


def test_its_numbers_are_those_of_the_code() -> None:
    for number in (PAIRS, LEAST_TEXTS, TEXTS):
        assert f"{number:,}" in PAGE
    assert NEIGHBOURS == 10
    assert ORDER == ("latency", "vectors", "model", "speed", "quality")
    defaults = {name: one.default for name, one in inspect.signature(measure).parameters.items()}
    for name in ("batch", "rounds", "seconds"):
        assert defaults[name] == getattr(dt.MeasureOptions(), name)
