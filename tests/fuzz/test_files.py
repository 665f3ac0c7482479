"""Every file that is read, changed at random: each change ends in one sentence or a right answer.

Never a traceback, a crash of a native library, a hang, a gigabyte of memory or a wrong vector. Half of the changes are
the same in every run; the others are new each time, and a failure says which they were.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import fuzz_seeds
import pytest
from file_kinds import Kind
from fuzzing import Ended, in_children
from soak_results import told

pytestmark = pytest.mark.posix  # children are forked

QUICK = 2  # changes of each kind of file: one that is always the same, and a new one
SHARES = 8  # of all kinds, so that processes can go through them side by side
AT_LENGTH = int(os.environ.get("DEMITASSE_FUZZ", "1000"))


def fuzzed(kind: Kind, count: int, scratch: Path, *seeds: str) -> Ended:
    scratch.mkdir()
    return in_children(count, kind.case(scratch, *seeds), large=kind.large)


def said(kind: Kind, ended: Ended, *seeds: str) -> list[str]:
    return [f"{kind.name}, seeds {seeds}, case {number}: {what}" for number, what in ended.findings]


def test_changed_files_end_in_one_sentence_or_a_right_answer(tmp_path: Path) -> None:
    kinds = fuzz_seeds.quick_kinds(tmp_path)
    new = secrets.token_hex(4)
    findings, refused, right = list[str](), 0, 0
    for number, kind in enumerate(kinds):
        ended = fuzzed(kind, QUICK, tmp_path / str(number), "always", new)
        findings += said(kind, ended, "always", new)
        refused, right = refused + ended.counts["refused"], right + ended.counts["right"]
    assert not findings, "\n".join(findings)
    assert refused + right == QUICK * len(kinds)
    assert refused > right > len(kinds) // 10  # both happen, so the files are changed, and not all beyond recognition


@pytest.mark.soak
@pytest.mark.parametrize("share", range(SHARES))
def test_changed_files_at_length(share: int, tmp_path: Path) -> None:
    kinds = [*fuzz_seeds.quick_kinds(tmp_path), *fuzz_seeds.long_kinds(tmp_path)]
    seed = os.environ.get("DEMITASSE_FUZZ_SEED", secrets.token_hex(4))
    findings = list[str]()
    for number, kind in enumerate(kinds[share::SHARES]):
        before = os.times()
        slow = kind.name.startswith(("run/", "described", "encode "))
        ended = fuzzed(kind, max(1, AT_LENGTH // 10) if slow else AT_LENGTH, tmp_path / str(number), seed)
        seconds = {"CPU s": round(sum(os.times()[:4]) - sum(before[:4]))}
        counts = {**{name: ended.counts[name] for name in ("refused", "right")}, "findings": len(ended.findings)}
        told("fuzz", file=kind.name, seed=seed, mutations=ended.cases, **seconds, **counts)
        findings += said(kind, ended, seed)
    assert not findings, "\n".join(findings)
