from __future__ import annotations

import bz2
import gc
import gzip
import io
import lzma
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.feather
import pyarrow.parquet
import pytest

from demitasse import DataError
from demitasse.host.text_lines import read_lines, read_pieces

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


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "a\0b.gz"])
def test_a_name_that_no_file_can_have_is_refused(name: str) -> None:
    with pytest.raises(DataError, match=r"^cannot read '.*'.*; give a readable text file"):
        read_lines(Path(name))


@pytest.mark.posix
def test_a_pipe_is_read_as_it_comes(tmp_path: Path) -> None:
    """A pipe cannot be opened twice: whoever writes to it would be cut off."""
    os.mkfifo(tmp_path / "pipe")
    end = os.open(tmp_path / "pipe", os.O_RDWR)  # both ends, so that opening it does not wait
    os.write(end, b"a\nb\n")
    lines = read_lines(tmp_path / "pipe")
    os.close(end)
    assert list(lines) == ["a", "b"]


# What users hand in by mistake: how it starts, and what must be said.
NOT_TEXT = {
    "UTF-16": ("a cup\n".encode("utf-16"), "looks like UTF-16 text; save it as UTF-8"),
    "UTF-16 big-endian": (b"\xfe\xff" + "a cup\n".encode("utf-16-be"), "looks like UTF-16 text; save it as UTF-8"),
    "UTF-32": ("a cup\n".encode("utf-32"), "looks like UTF-32 text; save it as UTF-8"),
    "UTF-16 without a mark": ("a cup\n".encode("utf-16-le"), "line 1 has a zero byte, as binary files and UTF-16 have"),
    "gzip": (gzip.compress(b"a cup\n"), r"looks like a gzip file; give it a name that ends in \.gz"),
    "bzip2": (bz2.compress(b"a cup\n"), "looks like a bzip2 file; unpack it first"),
    "xz": (lzma.compress(b"a cup\n"), "looks like an xz file; unpack it first"),
    "zstd": (b"\x28\xb5\x2f\xfd$\x06", "looks like a zstd file; unpack it first"),
    "xlsx": (b"PK\x03\x04\x14\x00\x06\x00", r"looks like a zip archive, as \.xlsx and \.npz files are"),
    "numpy": (b"\x93NUMPY\x01\x00v\x00{'descr'", "looks like a numpy array"),
    "PDF": (b"%PDF-1.7\n%\xe2\xe3", "looks like a PDF"),
    "an image": (b"\x89PNG\r\n\x1a\n\x00\x00", r"line (1 is not UTF-8|3 has a zero byte)"),
    "a later line": (b"a cup\na \x00 mug\n", "line 2 has a zero byte"),
}


@pytest.mark.parametrize("kind", NOT_TEXT)
@pytest.mark.parametrize("read", [read_lines, read_pieces])
def test_what_is_not_text_is_refused_with_what_it_looks_like(
    kind: str, read: Callable[[Path], Iterator[str]], tmp_path: Path
) -> None:
    data, message = NOT_TEXT[kind]
    with pytest.raises(DataError, match=message):
        list(read(written(tmp_path / "t.txt", data)))
    with pytest.raises(DataError, match=message.replace(r"name that ends in \.gz", "")):
        list(read(written(tmp_path / "t.txt.gz", data)))


def test_parquet_and_arrow_files_are_recognised_under_another_name(tmp_path: Path) -> None:
    table = pyarrow.table({"text": ["a cup"]})
    pyarrow.parquet.write_table(table, tmp_path / "p.txt")
    pyarrow.parquet.write_table(table.slice(0, 0), tmp_path / "none.txt")
    pyarrow.feather.write_feather(table, tmp_path / "f.txt")
    for name, message in {"p.txt": "a Parquet file", "none.txt": "a Parquet file", "f.txt": "an Arrow file"}.items():
        with pytest.raises(DataError, match=f"{name} is not UTF-8 text but looks like {message}; .*parquet"):
            next(read_lines(tmp_path / name))


def test_texts_that_begin_like_a_binary_file_are_texts(tmp_path: Path) -> None:
    texts = ["PAR1 is not a Parquet file", "PK is penalty kick", "BZh", "ARROW1"]
    for text in texts:
        assert list(read_lines(written(tmp_path / "t.txt", text.encode()))) == [text]


def test_a_line_that_would_fill_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demitasse.host.text_lines.MAX_LINE", 1 << 20)
    path = written(tmp_path / "bomb.txt.gz", b"short\n" + b"a" * (1 << 20) + b"\n")
    with pytest.raises(DataError, match=r"bomb\.txt\.gz line 2 is longer than 1 MB; give one text or row per line"):
        list(read_lines(path))
    assert sum(map(len, read_pieces(path))) == 6 + (1 << 20) + 1


def test_pieces_are_the_text_wherever_they_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demitasse.host.text_lines._PIECE", 3)
    text = "a café\r\n\U0001f600 and\nmore"
    for name in ("t.json", "t.json.gz"):
        assert "".join(read_pieces(written(tmp_path / name, BOM + text.encode()))) == text
    with pytest.raises(DataError, match=r"half\.json line 2 is not UTF-8 \(unexpected end of data\)"):
        list(read_pieces(written(tmp_path / "half.json", b"a\nb\xc3")))


@pytest.mark.parametrize("read", [read_lines, read_pieces])
@pytest.mark.parametrize("name", ["t.txt", "t.txt.gz"])
def test_a_file_is_closed_when_nobody_reads_on(
    read: Callable[[Path], Iterator[str]], name: str, tmp_path: Path
) -> None:
    """Also when an error holds on to the lines: garbage is collected in any order, and pytest fails on a warning."""
    path = written(tmp_path / name, b"a\nb\n" * 99)
    for asked in (0, 1):
        held: list[object] = [read(path)]
        for _ in range(asked):
            next(held[0])  # type: ignore[call-overload]
        held.append(held)  # a cycle, as a traceback makes one
        del held
        gc.collect()
