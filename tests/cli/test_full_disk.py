"""A full disk under stdout; `tests/crash` has full disks under the files that commands write."""

from __future__ import annotations

import errno
import io
import os
import sys

import pytest

from demitasse.cli.app import main


class FullFile(io.RawIOBase):
    """A file on a full disk."""

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("command", ["encode a", "info", "--version"])
def test_stdout_on_a_full_disk_is_one_sentence(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stdout = io.TextIOWrapper(io.BufferedWriter(FullFile()))
    with monkeypatch.context() as patched, pytest.raises(SystemExit) as ended:
        patched.setattr(sys, "argv", ["demitasse", *command.split()])
        patched.setattr(sys, "stdout", stdout)
        main()
    with pytest.raises(OSError, match="No space left"):
        stdout.close()
    assert ended.value.code == 2
    sentence = "error: cannot write to stdout (No space left on device); make room on that disk, or write to another\n"
    assert capsys.readouterr().err == sentence
