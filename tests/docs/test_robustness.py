"""docs/robustness.md: each defect that was found has a test, and the tests that it names are there."""

from __future__ import annotations

import re
import subprocess
import sys

from pages import read
from paths import ROOT

ROWS = re.findall(r"^\| (\d+) \| .* \| .* \| (.*) \|$", read("docs/robustness.md"), flags=re.MULTILINE)
NAMED = {number: [f"tests/{test}" for test in re.findall(r"`([^`]+::[^`]+)`", tests)] for number, tests in ROWS}


def test_each_defect_has_a_test() -> None:
    assert [*NAMED] == [str(number) for number in range(35)]
    assert all(
        tests and ", ".join(f"`{test.removeprefix('tests/')}`" for test in tests) == cell
        for tests, (_, cell) in zip(NAMED.values(), ROWS, strict=True)
    )


def test_every_test_that_it_names_can_be_run() -> None:
    named = [test for tests in NAMED.values() for test in tests]
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *named]
    collected = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert collected.returncode == 0, collected.stdout + collected.stderr
