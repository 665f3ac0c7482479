"""README is short, its tree shows the packages there are, and its tables are what the results hold."""

from __future__ import annotations

import re
import subprocess
import sys

from pages import read
from paths import ROOT

README = read("README.md")
PACKAGES = {path.parent.name for path in (ROOT / "src" / "demitasse").glob("*/__init__.py")} | {"assets"}


def test_it_is_at_most_220_lines() -> None:
    assert len(README.splitlines()) <= 220


def test_its_tree_lists_exactly_the_packages_there_are() -> None:
    (tree,) = re.findall(r"```\n(src/demitasse/\n.*?)```", README, flags=re.DOTALL)
    assert set(re.findall(r"^  (\w+)/ ", tree, flags=re.MULTILINE)) == PACKAGES
    for folder in re.findall(r"^(\S+)", tree, flags=re.MULTILINE):
        assert (ROOT / folder).is_dir(), folder


def test_its_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)", README):
        assert (ROOT / target).exists(), target


def test_tables_are_what_the_results_hold() -> None:
    check = subprocess.run([sys.executable, ROOT / "research" / "tables.py", "--check"], capture_output=True, text=True)
    assert check.returncode == 0, check.stderr
