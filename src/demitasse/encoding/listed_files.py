"""The files that a manifest lists, checked against it: a file that was damaged, exchanged or forgotten is never used.

A file is read once, checked, and used from memory, so that nothing can change between the check and the use. What
other libraries read from disk by themselves is checked just before, and looked at again after.
"""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PureWindowsPath

from demitasse.encoding.manifest import MANIFEST, Manifest, sha256_of
from demitasse.errors import FolderError

_CURE = "copy, save or export the model again"


@dataclass(frozen=True)
class ListedFiles:
    """The files of a model folder, as its manifest lists them."""

    manifest: Manifest

    @property
    def folder(self) -> Path:
        """The folder they are in."""
        return self.manifest.folder

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The size of each in bytes; a folder that runs on torch may come without."""
        return self.manifest.files

    @cached_property
    def hashes(self) -> dict[str, str]:
        """The sha256 of each; a folder written before there were hashes has none."""
        return self.manifest.sha256

    def check_size(self, name: str) -> None:
        """Refuse a file that is missing or has another size; a pipe or a device is no file."""
        parts = PureWindowsPath(name)  # which knows what is absolute on POSIX, too
        if parts.anchor or ".." in parts.parts:
            raise FolderError(f"{self.folder / MANIFEST} lists {name!a:.80}, which is outside the folder; {_CURE}")
        try:
            status = (self.folder / name).stat()
        except OSError as problem:
            raise self._unreadable(name, problem) from problem
        if not stat.S_ISREG(status.st_mode):
            raise self._wrong(name, "is not a file")
        self._compare_size(name, status.st_size)

    def read(self, name: str) -> bytes:
        """The content of a file that is what the manifest says."""
        self.check_size(name)  # before anything is read: what was put there may have no end
        try:
            content = (self.folder / name).read_bytes()
        except OSError as problem:
            raise self._unreadable(name, problem) from problem
        self._compare_size(name, len(content))
        if not self.hashes and self._has_changed():
            raise self._changed()
        self._compare_hash(name, hashlib.sha256(content).hexdigest() if self.hashes else None)
        return content

    @contextmanager
    def checked(self) -> Iterator[None]:
        """Refuse a folder whose files are not what the manifest says, now or when the block ends."""
        before = {name: self._state(name) for name in self.sizes}
        for name in self.sizes:
            self.check_size(name)
            self._compare_hash(name, self._hash_on_disk(name) if self.hashes else None)
        yield
        if {name: self._state(name) for name in self.sizes} != before:
            raise self._changed()

    def wrong(self) -> dict[str, str]:
        """What is wrong with each file that is not as listed."""
        found = {}
        for name in self.sizes:
            try:
                self.check_size(name)
                self._compare_hash(name, self._hash_on_disk(name) if self.hashes else None)
            except FolderError as problem:
                found[name] = str(problem).partition(";")[0].removeprefix(f"{self.folder / name} ")
        return found

    def _compare_size(self, name: str, size: int) -> None:
        if size != self.sizes.get(name):
            raise self._wrong(name, f"has {size} bytes and should have {self.sizes.get(name)}")

    def _compare_hash(self, name: str, found: str | None) -> None:
        if self.hashes and found != self.hashes.get(name):
            raise self._wrong(name, f"is not the file that was written (its sha256 is not the one in {MANIFEST})")

    def _hash_on_disk(self, name: str) -> str:
        try:
            return sha256_of(self.folder / name)
        except OSError as problem:
            raise self._unreadable(name, problem) from problem

    def _state(self, name: str) -> tuple[int, int, int] | None:
        """What changes when a file is written or replaced."""
        try:
            status = (self.folder / name).stat()
        except OSError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns

    def _unreadable(self, name: str, problem: OSError) -> FolderError:
        return self._wrong(name, f"cannot be read ({problem.strerror})")

    def _wrong(self, name: str, what: str) -> FolderError:
        if self._has_changed():
            return self._changed()
        return FolderError(f"{self.folder / name} {what}; {_CURE}")

    def _changed(self) -> FolderError:
        return FolderError(f"{self.folder} was changed after it was loaded; load the model again")

    def _has_changed(self) -> bool:
        return is_replaced(self.manifest, self.folder)


def is_replaced(manifest: Manifest | None, folder: Path) -> bool:
    """Whether `folder` has another manifest by now than the one that was read from it."""
    try:
        now = Manifest.read(folder)
    except FolderError:
        return True
    return (now and now.fields) != (manifest and manifest.fields)
