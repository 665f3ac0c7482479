"""A full disk in the middle of a write: the errors are those that the libraries raise on a small tmpfs."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

import pytest
from safetensors import SafetensorError

from demitasse import DataError, FolderError
from demitasse.host.atomic import new_file, new_folder
from demitasse.host.full_disk import naming_full_disk

FULL = OSError(errno.ENOSPC, "No space left on device")


def from_torch() -> RuntimeError:
    problem = RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 704 vs 598")
    problem.__context__ = FULL
    return problem


RAISED = {
    "Python": FULL,
    "a quota": OSError(errno.EDQUOT, "Disk quota exceeded"),
    "safetensors": SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
    "tokenizers": Exception("No space left on device (os error 28)"),
    "tokenizers on Windows": Exception("There is not enough space on the disk. (os error 112)"),
    "torch": from_torch(),
}


@pytest.mark.parametrize("library", RAISED)
def test_a_full_disk_is_one_sentence(library: str, tmp_path: Path) -> None:
    said = pytest.raises(
        FolderError, match=r"cannot write .*/m \((No space|Disk quota).*\); make room on that disk, or"
    )
    with said, new_folder(tmp_path / "m", lambda folder: ()):
        raise RAISED[library]
    with said, new_file(tmp_path / "m"):
        raise RAISED[library]
    with said, new_folder(tmp_path / "m", lambda folder: ()) as aside, new_file(aside / "inside"):
        raise RAISED[library]
    assert list(tmp_path.iterdir()) == []


def test_a_library_that_says_nothing_of_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """numpy says how many bytes were written, torch that a stream failed: then the disk is asked."""
    for problem in (OSError("1048576 requested and 262112 written"), RuntimeError("basic_ios::clear: iostream error")):
        with pytest.raises(type(problem), match=str(problem)), new_file(tmp_path / "f"):
            raise problem
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            with pytest.raises(FolderError, match="No space left"), new_file(tmp_path / "f"):
                raise problem


def full(handle: int) -> None:
    raise FULL


def test_other_errors_stay_what_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(**options: object) -> None:
        raise FULL

    monkeypatch.setattr(tempfile, "TemporaryFile", no_room)  # even on a full disk
    with pytest.raises(DataError, match="line 3"), naming_full_disk(tmp_path / "f"):
        raise DataError("line 3: No space left on the page")
