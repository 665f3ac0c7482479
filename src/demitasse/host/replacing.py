"""Which folders may be replaced, and what in them is kept: nothing that others put there is ever lost."""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path

from demitasse.errors import FolderError
from demitasse.host.disk_sync import sync
from demitasse.host.full_disk import naming_full_disk

OwnFiles = Callable[[Path], Collection[str]]  # the files of a folder that demitasse wrote, as relative POSIX paths

_MOUNTS = Path("/proc/self/mountinfo")
_NAMED = 3  # of the files in the way
_DROPPED_BY_SYSTEMS = {".DS_Store", "Thumbs.db", "desktop.ini"}  # in any folder that was looked at: kept, not named


def check_replaceable(target: Path, own_files: OwnFiles, source: Path | None = None, *, force: bool = False) -> None:
    """Refuse a folder that must not be replaced, or cannot be written; a new or an empty one is fine.

    Others' files and `source`, the folder the model was loaded from, are in the way unless forced.
    """
    real = Path(os.path.realpath(target))
    _check_writable(target, real)
    try:
        is_source = source is not None and source.exists() and real.samefile(source)
        is_folder = stat.S_ISDIR(real.stat().st_mode)
    except FileNotFoundError:  # there is none, or another process is replacing it
        return
    if not is_folder:
        raise FolderError(f"{target} is a file; choose a new folder")
    _check_movable(target, real)
    if force:
        return
    if is_source:
        raise FolderError(
            f"{target} is the folder that the model was loaded from; choose a new folder, or use force (--force)"
        )
    try:
        names = others_files(real, own_files)
    except OSError as problem:
        raise FolderError(f"{problem.filename} cannot be read ({problem.strerror}); choose a new folder") from problem
    others = [name for name in names if name.rpartition("/")[2] not in _DROPPED_BY_SYSTEMS]
    if others:
        own = own_files(real)
        shared = {name.partition("/")[0] for name in own}
        tops = [name if name.partition("/")[0] in shared else _top(name) for name in sorted(others)]
        named = ", ".join(list(dict.fromkeys(tops))[:_NAMED]) + (", …" if len({*tops}) > _NAMED else "")
        what = "has files that demitasse did not write" if own else "exists and is not a demitasse model"
        raise FolderError(f"{target} {what} ({named}); choose a new folder, or use force (--force), which keeps them")


def others_files(folder: Path, own_files: OwnFiles) -> list[str]:
    """The files, links and empty folders in `folder` that demitasse did not write, as relative POSIX paths."""
    while folder.exists():
        own = set(own_files(folder))
        try:
            names = list(_everything(folder))
        except FileNotFoundError:
            continue
        if set(own_files(folder)) == own:  # else another process replaced it in the middle
            return [name for name in names if name not in own]
    return []


def keep(names: Collection[str], old: Path, new: Path) -> None:
    """Put these of `old` into `new` too: as the same file where the file system can, else as a copy.

    One that has the name of a file of `new` gets `.old` added to its name.
    """
    for name in names:
        with suppress(FileNotFoundError):  # its owner has just removed it
            _make_folders(Path(name).parent, old, new)
            place = new / name
            while os.path.lexists(place) and not _is_kept(old / name, place):
                place = place.with_name(f"{place.name}.old")
            if not os.path.lexists(place):
                _link_or_copy(old / name, place)


def _everything(folder: Path) -> Iterator[str]:
    for path, folders, files in os.walk(folder, onerror=_raise):
        links = [name for name in folders if os.path.islink(os.path.join(path, name))]
        inside = Path(path).relative_to(folder)
        yield from ((inside / name).as_posix() for name in (*files, *links))
        if not (files or folders) and inside.parts:
            yield inside.as_posix()


def _raise(problem: OSError) -> None:
    raise problem  # a folder that cannot be read is not an empty one


def _make_folders(inside: Path, old: Path, new: Path) -> None:
    for part in reversed([inside, *inside.parents]):
        if not (new / part).exists():
            (new / part).mkdir()
            shutil.copymode(old / part, new / part)


def _top(name: str) -> str:
    first, inside, _ = name.partition("/")
    return first + inside


def _is_kept(source: Path, place: Path) -> bool:
    one, other = os.lstat(source), os.lstat(place)
    same = (one.st_mode, one.st_size, one.st_mtime_ns) == (other.st_mode, other.st_size, other.st_mtime_ns)
    return same or os.path.samestat(one, other)


def _link_or_copy(source: Path, place: Path) -> None:
    if source.is_dir() and not source.is_symlink():
        place.mkdir()
        shutil.copystat(source, place)
        return
    try:
        os.link(source, place, follow_symlinks=False)
    except (OSError, NotImplementedError):  # no hard links on this disk, or not of symbolic links
        shutil.copy2(source, place, follow_symlinks=False)
        if not place.is_symlink():
            sync(place)


def _check_writable(target: Path, real: Path) -> None:
    folder = next((parent for parent in real.parents if parent.exists()), real)
    try:
        with naming_full_disk(target), tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as problem:
        raise FolderError(f"cannot write {target} ({problem.strerror}); choose a folder you may write to") from problem


def _check_movable(target: Path, real: Path) -> None:
    """Refuse a folder that cannot be moved aside, or that processes stand on."""
    try:
        working = Path(os.path.realpath(os.getcwd()))
    except FileNotFoundError:  # it was removed
        working = None
    below = f"name a folder below it, such as {target / 'model'}"
    if working is not None and working.is_relative_to(real):
        raise FolderError(f"{target} is the working directory or holds it, so it cannot be replaced; {below}")
    mounted = _mount_points()
    for path in (real, *(Path(path) / name for path, folders, _ in os.walk(real) for name in folders)):
        if os.path.ismount(path) or os.fspath(path) in mounted:
            raise FolderError(f"{path} is a mount point, so {target} cannot be replaced; {below}")


def _mount_points() -> set[str]:
    """Where something is mounted; on Linux also folders of the same disk, which `os.path.ismount` cannot see."""
    try:
        lines = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return set()
    return {re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), line.split(" ")[4]) for line in lines}
