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


def ours(folder: Path) -> set[str]:
    """The files of a folder that `fill` wrote, or that the killed process below writes."""
    return {MARK, "data", "sub/data"} if (folder / MARK).is_file() else set()


def fill(folder: Path, text: str) -> None:
    (folder / MARK).write_text(text)
    (folder / "sub").mkdir()
    (folder / "sub" / "data").write_text(text)


def test_a_folder_appears_complete(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "er" / "m"
    with new_folder(target, ours) as aside:
        fill(aside, "one")
        assert not target.exists()
    assert (target / "sub" / "data").read_text() == "one"
    with new_folder(target, ours) as aside:
        fill(aside, "two")
        assert (target / "sub" / "data").read_text() == "one"
    assert (target / "sub" / "data").read_text() == "two"
    assert [path.name for path in target.parent.iterdir()] == ["m"]


@pytest.mark.parametrize("problem", [ValueError, KeyboardInterrupt])
def test_a_failure_leaves_what_was_there(problem: type[BaseException], tmp_path: Path) -> None:
    target = tmp_path / "m"
    with new_folder(target, ours) as aside:
        fill(aside, "old")
    with pytest.raises(problem), new_folder(target, ours) as aside:
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
    with new_folder(tmp_path / "m", ours) as aside:
        fill(aside, "one")
    assert tmp_path in refused
    assert (tmp_path / "m" / "sub" / "data").read_text() == "one"
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_a_disk_that_fails_is_not_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refusing_folders("fsync", OSError(errno.EIO, "Input/output error"), monkeypatch)
    failed = pytest.raises(FolderError, match=r"cannot write .*m \(Input/output error\)")
    with failed, new_folder(tmp_path / "m", ours) as aside:
        fill(aside, "one")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.posix
def test_files_of_a_folder_have_the_usual_permissions(tmp_path: Path) -> None:
    with new_folder(tmp_path / "m", ours) as aside:
        fill(aside, "one")
        (aside / MARK).chmod(0o600)
    (tmp_path / "plain").write_text("")
    assert (tmp_path / "m" / MARK).stat().st_mode == (tmp_path / "plain").stat().st_mode


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
    refused = r"m is a file; choose|m exists and is not a demitasse model \(mine\); choose"
    with pytest.raises(FolderError, match=refused), new_folder(target, ours):
        raise AssertionError
    assert target.exists()


def test_an_empty_folder_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    with new_folder(tmp_path / "m", ours) as aside:
        fill(aside, "one")
    assert (tmp_path / "m" / MARK).read_text() == "one"


def test_a_path_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    for inside in (new_folder(tmp_path / "file" / "m", ours), new_file(tmp_path / "file" / "f")):
        with pytest.raises(FolderError, match=r"cannot write .*; choose a folder"), inside:
            raise AssertionError

    def forbidden(**options: object) -> str:  # root may write anywhere, so the system's answer is played here
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(tempfile, "TemporaryFile", forbidden)
    with pytest.raises(FolderError, match=r"\(Permission denied\)"), new_folder(tmp_path / "m", ours):
        raise AssertionError


@pytest.mark.posix
def test_permissions_and_links_stay(tmp_path: Path) -> None:
    for name in ("f", "m"):
        (tmp_path / f"link-{name}").symlink_to(tmp_path / name)
    for text in ("one", "two"):
        with new_file(tmp_path / "link-f") as file:
            file.write(text.encode())
        with new_folder(tmp_path / "link-m", ours) as aside:
            fill(aside, text)
        (tmp_path / "f").chmod(0o600)
        (tmp_path / "m").chmod(0o700)
    assert (tmp_path / "link-f").is_symlink()
    assert (tmp_path / "link-m").is_symlink()
    assert (tmp_path / "f").read_text() == (tmp_path / "m" / MARK).read_text() == "two"
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("f", "m")] == [0o600, 0o700]
    with new_file(tmp_path / "f") as file:
        file.write(b"three")
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o600


@pytest.mark.posix
def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with new_file(tmp_path / "pipe") as file:
        file.write(b"text")
    assert os.read(reader, 10) == b"text"
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo()


def test_a_folder_cannot_be_a_file(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="is a folder; give a file name"), new_file(tmp_path):
        raise AssertionError


KILLED = """
import os, signal, sys
from pathlib import Path
import demitasse.host.atomic as atomic

target, fatal, exchanges = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "exchanges"
calls = 0

def watched(real):
    def call(*arguments, **options):
        global calls
        calls += 1
        if calls == fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **options)
    return call

for name in ("rename", "fsync", "open", "chmod", "mkdir", "unlink", "rmdir"):
    setattr(atomic.os, name, watched(getattr(os, name)))
if exchanges:
    atomic.exchange = watched(atomic.exchange)
else:
    atomic.exchange = lambda one, other: False
with atomic.new_folder(target, lambda folder: {"mark", "data"}) as aside:
    for name in ("mark", "data"):
        (aside / name).write_text("new")
print("done")
"""


@pytest.mark.posix
@pytest.mark.parametrize("way", ["exchanges", "renames"])
def test_killed_at_any_point_the_target_is_absent_old_or_complete(way: str, tmp_path: Path) -> None:
    seen = set()
    for fatal in range(1, 100):
        target = tmp_path / str(fatal) / "m"
        with new_folder(target, ours) as aside:
            for name in (MARK, "data"):
                (aside / name).write_text("old")
        command = [sys.executable, "-c", KILLED, target, str(fatal), way]
        run = subprocess.run(command, capture_output=True, check=False)
        assert run.returncode in (0, -signal.SIGKILL), run.stderr.decode()
        if target.exists():
            state = {(target / name).read_text() for name in (MARK, "data")}
            assert len(state) == 1
            seen |= state
        else:
            assert way == "renames"  # an exchange never leaves the name without a folder
        # A write that fails puts back the old one, and leaves nothing else of the process that was killed.
        with pytest.raises(KeyError), new_folder(target, ours):
            raise KeyError
        assert [path.name for path in target.parent.iterdir()] == ["m"]
        assert len({(target / name).read_text() for name in (MARK, "data")}) == 1
        if run.returncode == 0:
            break
    else:
        raise AssertionError("the save never finished")
    assert seen == {"old", "new"}
