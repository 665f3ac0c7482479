"""A full disk, told from every other error: libraries raise their own classes when they cannot write."""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from demitasse.errors import DemitasseError, FullDisk

_FULL = {number for name in ("ENOSPC", "EDQUOT", "EFBIG") if (number := getattr(errno, name, None)) is not None}
# What safetensors and tokenizers (both in Rust), numpy and SQLite say, on Linux, macOS and Windows.
_SAID = re.compile(
    r"No space left|quota exceeded|File too large|Not enough free space|os error (27|28|69|112|122)\b|or disk is full"
)
_PROBE = 1 << 20  # bytes


@contextmanager
def naming_full_disk(target: Path) -> Iterator[None]:
    """Within the block, an error that comes from a full disk or a quota becomes one sentence that names `target`."""
    try:
        yield
    except Exception as problem:
        why = _why_full(problem, target)
        if why is None:
            raise
        raise FullDisk(
            f"cannot write {target} ({why}); make room on that disk, or choose a folder on another"
        ) from problem


def is_full(problem: OSError) -> bool:
    """Whether the system said that a disk, or a quota on it, is full."""
    return problem.errno in _FULL


def _why_full(problem: BaseException, target: Path) -> str | None:
    """What the system says about the disk, if that is the cause of `problem`."""
    seen: BaseException | None = problem
    while seen is not None:
        if isinstance(seen, OSError) and is_full(seen):
            return os.strerror(seen.errno or errno.ENOSPC)
        if not isinstance(seen, DemitasseError) and _SAID.search(str(seen)):
            return os.strerror(errno.ENOSPC)
        seen = seen.__cause__ or seen.__context__
    # torch and numpy sometimes say no more than that a write was short.
    return None if isinstance(problem, DemitasseError) else _refusal_of_a_write(target)


def _refusal_of_a_write(target: Path) -> str | None:
    folder = next(parent for parent in target.absolute().parents if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_PROBE))
            file.flush()
            os.fsync(file.fileno())
    except OSError as problem:
        return os.strerror(problem.errno or errno.ENOSPC) if is_full(problem) else None
    return None
