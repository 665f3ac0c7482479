from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from demitasse.host import leftovers
from demitasse.host.atomic import new_file, new_folder
from demitasse.host.leftovers import STALE, sweep


def ours(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.is_dir() else set()


def make_leftovers(folder: Path) -> None:
    (folder / ".m.0123abcd.part" / "sub").mkdir(parents=True)
    (folder / ".m.0123abcd.part" / "sub" / "half").write_text("")
    (folder / ".m.4567abcd.part").write_text("half")
    (folder / ".m.89ababcd.old" / "m").mkdir(parents=True)
    (folder / ".m.89ababcd.old" / "m" / "data").write_text("old")


NOT_LEFT_OVER = [".m.part", ".m.0123abcd.partial", ".m.0123abcde.part", ".m.note.part", "m.0123abcd.part", ".m.old"]


def test_the_next_write_sweeps_what_was_left(tmp_path: Path) -> None:
    for name in (*NOT_LEFT_OVER, ".other.0123abcd.part", ".m.x.0123abcd.part"):
        (tmp_path / name).write_text("")
    kept = {path.name for path in tmp_path.iterdir()}
    for _ in range(2):
        make_leftovers(tmp_path)
        with new_folder(tmp_path / "m", ours) as aside:
            (aside / "data").write_text("new")
    assert {path.name for path in tmp_path.iterdir()} == {*kept, "m"}
    (tmp_path / ".f.0123abcd.part").write_text("half")
    with new_file(tmp_path / "f") as file:
        file.write(b"new")
    assert {path.name for path in tmp_path.iterdir()} == {*kept, "m", "f"}
    sweep(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {*NOT_LEFT_OVER, "m", "f"}


def test_a_folder_that_was_moved_aside_is_put_back(tmp_path: Path) -> None:
    make_leftovers(tmp_path)
    sweep(tmp_path, "m")
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    assert (tmp_path / "m" / "data").read_text() == "old"


@pytest.mark.posix
def test_what_a_living_process_writes_is_not_swept(tmp_path: Path) -> None:
    with new_folder(tmp_path / "m", ours) as slow, new_file(tmp_path / "f") as file:
        (slow / "data").write_text("slow")
        file.write(b"slow")
        with new_folder(tmp_path / "m", ours) as aside, new_file(tmp_path / "f") as other:
            (aside / "data").write_text("fast")
            other.write(b"fast")
        sweep(tmp_path)
        assert (tmp_path / "m" / "data").read_text() == (tmp_path / "f").read_text() == "fast"
    assert (tmp_path / "m" / "data").read_text() == (tmp_path / "f").read_text() == "slow"
    assert {path.name for path in tmp_path.iterdir()} == {"m", "f"}


def test_without_locks_the_age_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "fcntl", None)
    make_leftovers(tmp_path)
    sweep(tmp_path)
    assert len(list(tmp_path.iterdir())) == 3
    long_ago = time.time() - STALE - 60
    for path in sorted(tmp_path.rglob("*"), reverse=True):
        if path.name != "half":
            os.utime(path, (long_ago, long_ago))
    sweep(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"m", ".m.0123abcd.part"}  # in which something is new
