"""The files that a manifest lists, checked against it: a file that was damaged, exchanged or forgotten is never used.

A file is read once, checked, and used from memory, so that nothing can change between the check and the use. What
other libraries read from disk by themselves is checked while they do, and must not have changed when they are done.
"""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PureWindowsPath

from demitasse.encoding.manifest import MANIFEST, Manifest, sha256_of
from demitasse.errors import FolderError, file_reason

_OTHER_CONTENT = f"is not the file that was written (its sha256 is not the one in {MANIFEST})"


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
        """Refuse a file that is missing or has another size."""
        self._refuse(name, self._fault(name, hashed=False))

    def read(self, name: str) -> bytes:
        """The content of a file that is what the manifest says."""
        self.check_size(name)  # before anything is read: what was put there may have no end
        try:
            content = (self.folder / name).read_bytes()
        except OSError as problem:
            raise self._wrong(name, f"cannot be read ({file_reason(problem)})") from problem
        if not self.hashes and self._has_changed():
            raise self._changed()
        self._refuse(name, self._size_fault(name, len(content)))
        if self.hashes and hashlib.sha256(content).hexdigest() != self.hashes.get(name):
            raise self._wrong(name, _OTHER_CONTENT)
        return content

    @contextmanager
    def checked(self) -> Iterator[None]:
        """Around code that reads the files: refuse a folder whose files are not what the manifest says.

        Sizes are checked before the block. Hashes take as long as reading a model does, so they are computed beside it;
        what the block made is used only if they are right, and a wrong file is named before any error it led to.
        """
        before = {name: self._state(name) for name in self.sizes}
        for name in self.sizes:
            self.check_size(name)
        with ThreadPoolExecutor(1, "demitasse-hash") as pool:
            hashing = pool.submit(self.faults)
            try:
                yield
            finally:
                for name, fault in hashing.result().items():
                    self._refuse(name, fault)
        if {name: self._state(name) for name in self.sizes} != before:
            raise self._changed()

    def faults(self) -> dict[str, str]:
        """What is wrong with each file that is not as listed."""
        found = {name: self._fault(name, hashed=True) for name in self.sizes}
        return {name: fault for name, fault in found.items() if fault is not None}

    def _fault(self, name: str, *, hashed: bool) -> str | None:
        """What is wrong with a file, if anything is; its content is looked at if `hashed`."""
        parts = PureWindowsPath(name)  # which knows what is absolute on POSIX, too
        if parts.anchor or ".." in parts.parts:
            return f"is listed in {MANIFEST}, but is outside the folder"
        try:
            status = (self.folder / name).stat()
            if not stat.S_ISREG(status.st_mode):  # a pipe or a device has no end
                return "is not a file"
            fault = self._size_fault(name, status.st_size)
            if fault is None and hashed and self.hashes and sha256_of(self.folder / name) != self.hashes.get(name):
                return _OTHER_CONTENT
        except (OSError, ValueError) as problem:  # a name may hold what no file system takes
            return f"cannot be read ({file_reason(problem)})"
        return fault

    def _size_fault(self, name: str, size: int) -> str | None:
        wanted = self.sizes.get(name)
        return None if size == wanted else f"has {size} bytes and should have {wanted}"

    def _state(self, name: str) -> tuple[int, int, int] | None:
        """What changes when a file is written or replaced."""
        try:
            status = (self.folder / name).stat()
        except (OSError, ValueError):
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns

    def _refuse(self, name: str, fault: str | None) -> None:
        if fault is not None:
            raise self._wrong(name, fault)

    def _wrong(self, name: str, what: str) -> FolderError:
        if self._has_changed():
            return self._changed()
        return FolderError(f"{self.folder / name} {what}; copy, save or export the model again")

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
