"""The system calls by which a process changes files, and a filter that asks another process before each of them.

seccomp's user notification sees the calls of Python, Rust and C++ alike, in every thread and child process, and needs
neither a compiler nor root. Writing through a shared mapping is no system call; making such a mapping is one.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_NOTIFICATION, _RESPONSE = struct.Struct("<QIIiIQ6Q"), struct.Struct("<Qqii")
_RECEIVE, _SEND, _CONTINUE = 0xC0502100, 0xC0182101, 1
_SET_MODE_FILTER, _NEW_LISTENER, _NO_NEW_PRIVILEGES = 1, 8, 38
_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000
_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06  # instructions of BPF
_AT_FDCWD = 0xFFFFFF9C
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_LONGEST_PATH = 4096


@dataclass(frozen=True)
class Kind:
    """What a system call does to which of its arguments."""

    numbers: tuple[int | None, int | None]  # on x86-64 and on aarch64
    fd: int | None = None  # the argument that is an open file
    paths: tuple[tuple[int | None, int], ...] = ()  # arguments that are a folder, if any, and a path in it
    flags: tuple[int, int] | None = None  # asked about only if this argument has one of these bits
    frees: bool = False  # whether it works on a full disk
    moves: bool = False


KINDS = {
    "write": Kind((1, 64), fd=0),
    "pwrite64": Kind((18, 68), fd=0),
    "writev": Kind((20, 66), fd=0),
    "pwritev": Kind((296, 70), fd=0),
    "pwritev2": Kind((328, 287), fd=0),
    "sendfile": Kind((40, 71), fd=0),
    "splice": Kind((275, 76), fd=2),
    "copy_file_range": Kind((326, 285), fd=2),
    "truncate": Kind((76, 45), paths=((None, 0),)),
    "ftruncate": Kind((77, 46), fd=0),
    "fallocate": Kind((285, 47), fd=0),
    "fsync": Kind((74, 82), fd=0),
    "fdatasync": Kind((75, 83), fd=0),
    "open": Kind((2, None), paths=((None, 0),), flags=(1, _WRITES)),
    "creat": Kind((85, None), paths=((None, 0),)),
    "openat": Kind((257, 56), paths=((0, 1),), flags=(2, _WRITES)),
    "openat2": Kind((437, 437), paths=((0, 1),)),
    "rename": Kind((82, None), paths=((None, 0), (None, 1)), moves=True),
    "renameat": Kind((264, 38), paths=((0, 1), (2, 3)), moves=True),
    "renameat2": Kind((316, 276), paths=((0, 1), (2, 3)), moves=True),
    "link": Kind((86, None), paths=((None, 0), (None, 1))),
    "linkat": Kind((265, 37), paths=((0, 1), (2, 3))),
    "symlink": Kind((88, None), paths=((None, 1),)),
    "symlinkat": Kind((266, 36), paths=((1, 2),)),
    "unlink": Kind((87, None), paths=((None, 0),), frees=True),
    "unlinkat": Kind((263, 35), paths=((0, 1),), frees=True),
    "rmdir": Kind((84, None), paths=((None, 0),), frees=True),
    "mkdir": Kind((83, None), paths=((None, 0),)),
    "mkdirat": Kind((258, 34), paths=((0, 1),)),
    "mmap": Kind((9, 222), fd=4),  # only those that are shared and writable; see `_program`
    "io_uring_setup": Kind((425, 425)),
}
_MACHINES = {"x86_64": (0, 0xC000003E, 317), "aarch64": (1, 0xC00000B7, 277)}  # column, architecture, seccomp's number


@dataclass(frozen=True)
class Asked:
    """A call that a process is about to make, and waits for."""

    id: int
    process: int
    name: str
    paths: tuple[Path, ...]
    kind: Kind


def available() -> bool:
    """Whether this machine has what `ask_before_writes` needs, and a container allows it."""
    if sys.platform != "linux" or platform.machine() not in _MACHINES:
        return False
    command = [sys.executable, "-S", "-c", "import system_calls; system_calls.ask_before_writes()"]
    return not subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, check=False).returncode


def ask_before_writes() -> int:
    """From now on, this process waits for an answer before each such call; returns the file to answer through."""
    column, architecture, seccomp = _MACHINES[platform.machine()]
    program = _program(column, architecture)
    code = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *line) for line in program))
    filter_ = struct.pack("@HP", len(program), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    listener: int = libc.syscall(seccomp, _SET_MODE_FILTER, _NEW_LISTENER, ctypes.c_char_p(filter_))
    if listener < 0:
        raise OSError(ctypes.get_errno(), "seccomp")
    return listener


def _program(column: int, architecture: int) -> list[tuple[int, int, int, int]]:
    """The filter: a load of the call's number, and three to five instructions for each kind of call."""
    lines = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _ALLOW), (_LOAD, 0, 0, 0)]
    for name, kind in KINDS.items():
        number = kind.numbers[column]
        if number is None:
            continue
        needed = [] if kind.flags is None else [kind.flags]
        if name == "mmap":
            needed = [(2, 2), (3, 1)]  # PROT_WRITE and MAP_SHARED
        body: list[tuple[int, int, int, int]] = []
        for argument, bits in needed:
            body += [(_LOAD, 0, 0, 16 + 8 * argument), (_ANY_BIT, 1, 0, bits), (_RETURN, 0, 0, _ALLOW)]
        body.append((_RETURN, 0, 0, _NOTIFY))
        lines += [(_EQUAL, 0, len(body), number), *body]
    return [*lines, (_RETURN, 0, 0, _ALLOW)]


def receive(listener: int) -> Asked | None:
    """The next call that waits for an answer; `None` if the process has ended meanwhile."""
    from fcntl import ioctl  # not on Windows, where the tests that use this are left out

    buffer = bytearray(_NOTIFICATION.size)
    try:
        ioctl(listener, _RECEIVE, buffer)
    except (FileNotFoundError, InterruptedError):
        return None
    id_, process, _, number, _, _, *arguments = _NOTIFICATION.unpack(buffer)
    column = _MACHINES[platform.machine()][0]
    name, kind = next((name, kind) for name, kind in KINDS.items() if kind.numbers[column] == number)
    try:
        return Asked(id_, process, name, tuple(_paths(process, kind, arguments)), kind)
    except OSError:  # it was killed while it waited
        return None


def _paths(process: int, kind: Kind, arguments: list[int]) -> list[Path]:
    if kind.fd is not None:
        number = arguments[kind.fd] & 0xFFFFFFFF
        return [] if number == 0xFFFFFFFF else [Path(os.readlink(f"/proc/{process}/fd/{number}"))]
    found = []
    for folder, path in kind.paths:
        number = _AT_FDCWD if folder is None else arguments[folder] & 0xFFFFFFFF
        base = os.readlink(f"/proc/{process}/{'cwd' if number == _AT_FDCWD else f'fd/{number}'}")
        found.append(Path(os.path.normpath(os.path.join(base, _text(process, arguments[path])))))
    return found


def _text(process: int, address: int) -> str:
    with open(f"/proc/{process}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        text = b""
        while b"\0" not in text and len(text) < _LONGEST_PATH:
            text += memory.read(256 - (address + len(text)) % 256)  # never over the end of a page
    return os.fsdecode(text.partition(b"\0")[0])


def answer(listener: int, asked: Asked, error: int = 0) -> None:
    """Let the process go on: with the call, or with an error instead of it."""
    from fcntl import ioctl

    with suppress(FileNotFoundError):  # it was killed while it waited
        ioctl(listener, _SEND, _RESPONSE.pack(asked.id, 0, -error, 0 if error else _CONTINUE))
