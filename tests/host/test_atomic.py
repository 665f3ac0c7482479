from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from demitasse import FolderError
from demitasse.host.atomic import new_file, new_folder

MARK = "mark"


def fill(folder: Path, text: str) -> None:
    (folder / MARK).write_text(text)
    (folder / "sub").mkdir()
    (folder / "sub" / "data").write_text(text)


def test_a_folder_appears_complete(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "er" / "m"
    with new_folder(target, MARK) as aside:
        fill(aside, "one")
        assert not target.exists()
    assert (target / "sub" / "data").read_text() == "one"
    with new_folder(target, MARK) as aside:
        fill(aside, "two")
        assert (target / "sub" / "data").read_text() == "one"
    assert (target / "sub" / "data").read_text() == "two"
    assert [path.name for path in target.parent.iterdir()] == ["m"]


@pytest.mark.parametrize("problem", [ValueError, KeyboardInterrupt])
def test_a_failure_leaves_what_was_there(problem: type[BaseException], tmp_path: Path) -> None:
    target = tmp_path / "m"
    with new_folder(target, MARK) as aside:
        fill(aside, "old")
    with pytest.raises(problem), new_folder(target, MARK) as aside:
        fill(aside, "new")
        raise problem
    with pytest.raises(problem), new_file(tmp_path / "f") as file:
        file.write(b"half")
        raise problem
    assert (target / MARK).read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def refusing_folders(call: str, problem: OSError, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Have `os.open` or `os.fsync` fail on folders, as they do on Windows or on a network; the folders it failed on."""
    real_open, real_fsync, refused = os.open, os.fsync, list[Path]()
    opened: dict[int, Path] = {}

    def open_(path: str, flags: int, *rest: object, **options: object) -> int:
        if call == "open" and Path(path).is_dir():
            refused.append(Path(path))
            raise problem
        handle = real_open(path, flags, *rest, **options)  # type: ignore[arg-type]
        opened[handle] = Path(path)
        return handle

    def fsync(handle: int) -> None:
        if call == "fsync" and handle in opened and opened[handle].is_dir():
            refused.append(opened[handle])
            raise problem
        real_fsync(handle)

    monkeypatch.setattr(os, "open", open_)
    monkeypatch.setattr(os, "fsync", fsync)
    return refused


@pytest.mark.parametrize(
    ("call", "problem"),
    [("open", PermissionError(errno.EACCES, "denied")), ("fsync", OSError(errno.EINVAL, "Invalid argument"))],
)
def test_folders_are_written_where_a_folder_cannot_be_synced(
    call: str, problem: OSError, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = refusing_folders(call, problem, monkeypatch)
    with new_folder(tmp_path / "m", MARK) as aside:
        fill(aside, "one")
    assert tmp_path in refused
    assert (tmp_path / "m" / "sub" / "data").read_text() == "one"
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_a_disk_that_fails_is_not_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refusing_folders("fsync", OSError(errno.EIO, "Input/output error"), monkeypatch)
    with pytest.raises(OSError, match="Input/output error"), new_folder(tmp_path / "m", MARK) as aside:
        fill(aside, "one")
    assert list(tmp_path.iterdir()) == []


def test_a_file_appears_complete_with_the_usual_permissions(tmp_path: Path) -> None:
    with new_file(tmp_path / "f") as file:
        file.write(b"text")
        assert not (tmp_path / "f").exists()
    (tmp_path / "plain").write_text("")
    assert (tmp_path / "f").read_bytes() == b"text"
    assert (tmp_path / "f").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("there", ["file", "folder"])
def test_a_folder_that_is_not_ours_is_not_replaced(there: str, tmp_path: Path) -> None:
    target = tmp_path / "m"
    if there == "file":
        target.write_text("mine")
    else:
        target.mkdir()
        (target / "mine").write_text("mine")
    with pytest.raises(FolderError, match="exists and is not a demitasse model"), new_folder(target, MARK):
        raise AssertionError
    assert target.exists()


def test_an_empty_folder_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    with new_folder(tmp_path / "m", MARK) as aside:
        fill(aside, "one")
    assert (tmp_path / "m" / MARK).read_text() == "one"


def test_a_path_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    for inside in (new_folder(tmp_path / "file" / "m", MARK), new_file(tmp_path / "file" / "f")):
        with pytest.raises(FolderError, match=r"cannot write .*; choose a folder"), inside:
            raise AssertionError

    def forbidden(**options: object) -> str:  # root may write anywhere, so the system's answer is played here
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(tempfile, "mkdtemp", forbidden)
    with pytest.raises(FolderError, match=r"\(Permission denied\)"), new_folder(tmp_path / "m", MARK):
        raise AssertionError


KILLED = """
import os, signal, sys
from pathlib import Path
import demitasse.host.atomic as atomic

target, fatal = Path(sys.argv[1]), int(sys.argv[2])
calls = 0

def watched(real):
    def call(*arguments):
        global calls
        calls += 1
        if calls == fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments)
    return call

for name in ("rename", "fsync", "open", "chmod"):
    setattr(atomic.os, name, watched(getattr(os, name)))
with atomic.new_folder(target, "mark") as aside:
    for name in ("mark", "data"):
        (aside / name).write_text("new")
print("done")
"""


@pytest.mark.posix
def test_killed_at_any_point_the_target_is_absent_old_or_complete(tmp_path: Path) -> None:
    seen = set()
    for fatal in range(1, 40):
        target = tmp_path / str(fatal) / "m"
        with new_folder(target, MARK) as aside:
            for name in (MARK, "data"):
                (aside / name).write_text("old")
        run = subprocess.run([sys.executable, "-c", KILLED, target, str(fatal)], capture_output=True, check=False)
        if target.exists():
            state = {(target / name).read_text() for name in (MARK, "data")}
            assert len(state) == 1
            seen |= state
        else:
            # The old one is beside it, whole.
            (old,) = target.parent.glob(".m.*.old/m")
            assert {(old / name).read_text() for name in (MARK, "data")} == {"old"}
        if run.returncode == 0:
            break
        assert run.returncode == -signal.SIGKILL
    else:
        raise AssertionError("the save never finished")
    assert seen == {"old", "new"}
