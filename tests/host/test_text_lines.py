from __future__ import annotations

import gzip
import io
import os
import sys
from pathlib import Path

import pytest

from demitasse import DataError
from demitasse.host.text_lines import read_lines

BOM = b"\xef\xbb\xbf"


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(gzip.compress(data) if path.suffix.lower() == ".gz" else data)
    return path


@pytest.mark.parametrize("name", ["t.txt", "t.txt.gz", "T.TXT.GZ"])
def test_line_ends_and_a_byte_order_mark_are_not_part_of_a_text(name: str, tmp_path: Path) -> None:
    path = written(tmp_path / name, BOM + "a café\r\n\nlast".encode())
    assert list(read_lines(path)) == ["a café", "", "last"]
    assert list(read_lines(path, keep_ends=True)) == ["a café\r\n", "\n", "last"]


def test_a_byte_order_mark_further_on_is_a_character(tmp_path: Path) -> None:
    assert list(read_lines(written(tmp_path / "t.txt", b"a\n" + BOM + b"b\n"))) == ["a", "\ufeffb"]


def test_only_newlines_end_a_line(tmp_path: Path) -> None:
    text = "one \u2028 line \x0b still\x85 the same"
    assert list(read_lines(written(tmp_path / "t.txt", text.encode()))) == [text]


def test_a_dash_is_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(BOM + b"a\nb")))
    assert list(read_lines(Path("-"))) == ["a", "b"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\nb \xff\n")))
    with pytest.raises(DataError, match="stdin line 2 is not UTF-8"):
        list(read_lines(Path("-")))


def test_bytes_that_are_not_utf8_are_refused_with_the_line(tmp_path: Path) -> None:
    path = written(tmp_path / "latin.txt", "plain\ncafé\n".encode("latin-1"))
    lines = read_lines(path)
    assert next(lines) == "plain"
    with pytest.raises(DataError, match=r"latin\.txt line 2 is not UTF-8 .*; save the file as UTF-8"):
        next(lines)
    with pytest.raises(DataError, match=r"^pairs line 2 is not UTF-8"):
        list(read_lines(path, name="pairs"))


def test_a_broken_gzip_file_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "half.gz", b"".join(b"%d\n" % (n * n) for n in range(5000)))
    path.write_bytes(path.read_bytes()[:9000])
    with pytest.raises(DataError, match=r"half\.gz is broken after line \d+ .*; copy it again"):
        list(read_lines(path))
    (tmp_path / "plain.gz").write_bytes(b"not packed\n")
    with pytest.raises(DataError, match=r"cannot read .*plain\.gz.*Not a gzipped file"):
        list(read_lines(tmp_path / "plain.gz"))


def test_a_file_that_is_not_there_is_refused_before_the_first_line(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere.txt", tmp_path):
        with pytest.raises(DataError, match=f"cannot read .*{path.name}.*; give a readable text file"):
            read_lines(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_read_as_it_comes(tmp_path: Path) -> None:
    """A pipe cannot be opened twice: whoever writes to it would be cut off."""
    os.mkfifo(tmp_path / "pipe")
    end = os.open(tmp_path / "pipe", os.O_RDWR)  # both ends, so that opening it does not wait
    os.write(end, b"a\nb\n")
    lines = read_lines(tmp_path / "pipe")
    os.close(end)
    assert list(lines) == ["a", "b"]
