from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from demitasse.errors import FolderError, FullDisk
from demitasse.host import leftovers
from demitasse.host.scratch import scratch_folder


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def left_behind(here: Path) -> Path:
    """What a process that was killed leaves: nothing holds it any more."""
    folder = here / ".demitasse.0123abcd.part"
    (folder / "fp32").mkdir(parents=True)
    (folder / "fp32" / "layer_1.onnx").write_bytes(b"half")
    os.utime(folder, (0, 0))  # long ago, for platforms without locks
    for inside in folder.rglob("*"):
        os.utime(inside, (0, 0))
    return folder


def test_it_is_gone_at_the_end(here: Path) -> None:
    with scratch_folder() as folder:
        (folder / "sub").mkdir()
        assert folder.parent == here
    assert list(here.iterdir()) == []
    with pytest.raises(KeyboardInterrupt), scratch_folder() as folder:
        (folder / "file").write_text("half")
        raise KeyboardInterrupt
    assert list(here.iterdir()) == []


def test_what_killed_processes_left_is_swept_and_what_others_use_is_not(here: Path) -> None:
    left_behind(here)

    def another() -> Iterator[Path]:
        with scratch_folder() as folder:
            yield folder

    with closing(another()) as process:
        (used := next(process)).joinpath("file").write_text("mine")
        with scratch_folder() as folder:
            assert {path.name for path in here.iterdir()} == {folder.name, used.name}
        assert [path.name for path in used.iterdir()] == ["file"]


@pytest.mark.posix
def test_what_another_user_left_is_not_ours_to_remove(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = left_behind(here)
    monkeypatch.setattr(leftovers.os, "geteuid", lambda: os.getuid() + 1)
    with scratch_folder():
        pass
    assert folder.is_dir()


def test_a_full_disk_says_where_temporary_files_go(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FullDisk, match=r"where TMPDIR says"), scratch_folder():
        raise FullDisk("cannot write fp32 (No space left on device); make room on that disk")

    def refused(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "mkdir", refused)
    with pytest.raises(FullDisk, match=r"cannot write .*demitasse \(No space left"), scratch_folder():
        raise AssertionError
    monkeypatch.setattr(tempfile, "tempdir", str(here / "nowhere"))
    monkeypatch.undo()
    monkeypatch.setattr(tempfile, "tempdir", str(here / "nowhere"))
    with pytest.raises(FolderError, match="set TMPDIR"), scratch_folder():
        raise AssertionError
