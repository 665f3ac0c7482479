from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from command_line import RunCommand
from profiles import made_profile

from demitasse.display.profile_page import page


def test_the_page_and_the_plot_are_written(run: RunCommand, tmp_path: Path) -> None:
    other = replace(made_profile(worse=1.0), model="two")
    made_profile().save(tmp_path / "one.json")
    other.save(tmp_path / "two.json")
    out, plot = tmp_path / "page.html", tmp_path / "page.svg"
    ran = run("report", tmp_path / "one.json", "--out", out, "--compare", tmp_path / "two.json", "--plot", plot)
    assert (ran.code, ran.out) == (0, "")
    assert [line.split()[0] for line in ran.err.splitlines()] == [str(out), str(plot)]
    assert out.read_text(encoding="utf-8") == page(made_profile(), [other])
    assert plot.read_bytes().startswith(b"<?xml")


def test_the_page_has_a_default_name(run: RunCommand, profile_folder: Path) -> None:
    assert "demitasse-report.html" in run("report", "old.json").err
    assert (profile_folder / "demitasse-report.html").is_file()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["missing.json"], "missing.json"),
        (["old.json", "--out", "old.json"], ".html"),
        (["old.json", "--plot", "old.gif"], ".png, .svg, .pdf"),
        (["old.json", "--compare", "missing.json"], "missing.json"),
        (["old.json", "-c", "."], "run demitasse measure MODEL --compare . --json"),
        (["."], "run demitasse measure . --json"),
    ],
)
def test_bad_calls_exit_2_with_one_sentence(
    arguments: list[str], said: str, run: RunCommand, profile_folder: Path
) -> None:
    before = sorted(profile_folder.iterdir())
    ran = run("report", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: ")
    assert said in ran.err
    assert ran.err.count("\n") == 1
    assert sorted(profile_folder.iterdir()) == before
