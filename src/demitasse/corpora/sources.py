"""The files of a corpus, and how to notice that one of them has changed."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from demitasse.arguments import path as path_of
from demitasse.errors import DataError, file_reason, shown
from demitasse.extras import PARQUET, need

PARQUET_FORMAT, JSON_LINES, TEXT_LINES = "parquet", "jsonl", "txt"
DELIMITERS = {"csv": ",", "tsv": "\t"}
FORMATS = (PARQUET_FORMAT, JSON_LINES, *DELIMITERS, TEXT_LINES)
_SUFFIXES = ".parquet, .jsonl, .csv, .tsv and .txt (the last four also with .gz)"
_ENDS = 64 << 10  # bytes at either end of a file that are part of its fingerprint


@dataclass(frozen=True)
class Source:
    """A file of rows, as it was when it was looked at."""

    path: str
    format: str
    packed: bool  # by gzip
    bytes: int
    modified: int  # microseconds
    digest: str  # of both ends; a Parquet file has all that is known of its row groups at its end

    @property
    def name(self) -> str:
        """The path, for sentences."""
        return self.path


def find_sources(given: object) -> list[Source]:
    """The files that paths, folders and globs name, each once: in the order given, those of a folder by name."""
    several = [given] if isinstance(given, (str, os.PathLike)) else given
    if not isinstance(several, Iterable):
        raise DataError(f"sources must be files, folders or globs, not {shown(given)}")
    paths = dict.fromkeys(path for one in several for path in _files(path_of("sources", one)))
    if not paths:
        raise DataError(f"sources were given no file; give files that end in {_SUFFIXES}, folders or globs")
    found = [_source(path) for path in paths]
    if any(source.format == PARQUET_FORMAT for source in found):
        need("reading Parquet", PARQUET)
    return found


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        inside = [Path(folder, name) for folder, _, names in os.walk(path) for name in names]
        # As Spark and Arrow do, what begins with a dot or an underscore is no data.
        visible = [one for one in inside if not any(part[0] in "._" for part in one.relative_to(path).parts)]
        found = sorted(one for one in visible if _format(one) is not None)
        if not found:
            raise DataError(f"the folder {path} has no files to read; it must have some that end in {_SUFFIXES}")
    elif path.exists() or not glob.has_magic(str(path)):
        found = [path]
    else:
        found = [Path(one) for one in sorted(glob.glob(str(path), recursive=True)) if os.path.isfile(one)]
        if not found:
            raise DataError(f"no file matches {str(path)!r}; check the pattern")
    yield from found


def _format(path: Path) -> tuple[str, bool] | None:
    packed = path.suffix.lower() == ".gz"
    suffix = (path.with_suffix("") if packed else path).suffix.lower().removeprefix(".")
    known = suffix in FORMATS and not (packed and suffix == PARQUET_FORMAT)
    return (suffix, packed) if known else None


def _source(path: Path) -> Source:
    format = _format(path)
    if format is None:
        raise DataError(f"the format of {path} is not known; a corpus is read from files that end in {_SUFFIXES}")
    if not path.is_file():
        raise DataError(f"{path} is {'not a file' if path.exists() else 'missing'}; give the path of a file")
    try:
        with path.open("rb") as file:
            known = os.fstat(file.fileno())
            ends = sha256(file.read(_ENDS))
            file.seek(max(0, known.st_size - _ENDS))
            ends.update(file.read(_ENDS))
    except OSError as problem:
        why = file_reason(problem)
        raise DataError(f"cannot read {str(path)!r} ({why}); give a file you may read") from problem
    return Source(str(path), *format, known.st_size, known.st_mtime_ns // 1000, ends.hexdigest())


def changed(old: Iterable[Source], new: Iterable[Source]) -> str | None:
    """What has happened to the sources since they were `old`; `None` if nothing has."""
    before, now = ({source.path: source for source in sources} for sources in (old, new))
    for path, source in before.items():
        if path not in now:
            return f"{path} is missing"
        if now[path] != source:
            return f"{path} has changed"
    added = next((path for path in now if path not in before), None)
    if added is not None:
        return f"{added} is new"
    return None if list(before) == list(now) else "the files are given in another order"
