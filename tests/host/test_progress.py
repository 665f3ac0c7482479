from __future__ import annotations

import sys

import pytest

from demitasse.host import progress


def test_long_work_shows_a_bar_on_stderr(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", -1)  # shown at once
    with progress.progress_bar("encoding", 10, show=True) as advance:
        advance(4)
        advance(6)
    shown = capsys.readouterr()
    assert "encoding" in shown.err
    assert "10/10" in shown.err
    assert shown.out == ""


def test_short_work_and_redirected_output_show_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "PATIENCE", float("inf"))  # no work is long
    with progress.progress_bar("encoding", 10, show=True) as advance:
        advance(10)
    assert not sys.stderr.isatty()
    with progress.progress_bar("encoding", 10) as advance:
        advance(10)
    assert capsys.readouterr() == ("", "")
