"""Runs something in a process of its own that is killed, or finds the disk full, at a chosen write below a folder."""

from __future__ import annotations

import errno
import importlib
import io
import os
import select
import signal
import socket
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from system_calls import Asked, answer, ask_before_writes, receive

SECONDS = 300.0  # after which a process hangs


@dataclass(frozen=True)
class Fault:
    """What happens at a write: `kill` ends the process, `full` fails it and all later ones that need space."""

    kind: str
    at: int  # the number of the write, from 1


@dataclass
class Ended:
    """How a process ended, what it printed and which writes it made or tried, as `name path`."""

    code: int = 0
    out: str = ""
    err: str = ""
    writes: list[str] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)  # what it had imported at its end


def run_watched(action: Callable[[], None], folder: Path, fault: Fault | None = None) -> Ended:
    """Run `action` in a fork of this process, with its folder for temporary files inside the watched `folder` too."""
    ours, theirs = socket.socketpair()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as modules:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # forking beside other threads
            process = os.fork()
        if process == 0:
            _child(action, folder, theirs, [file.fileno() for file in (out, err, modules)])
        theirs.close()
        ended = Ended()
        try:
            with ours:
                _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
            if descriptors:
                _supervise(process, descriptors[0], folder, fault, ended)
        finally:
            os.kill(process, signal.SIGKILL)
            ended.code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        ended.out, ended.err, imported = (_text(file) for file in (out, err, modules))
        ended.modules = imported.split()
    return ended


def import_all(modules: list[str]) -> None:
    """Import what another process has, so that the next forks of this one need not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in modules:
            with suppress(Exception):  # such as parts of this program itself
                importlib.import_module(name)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _supervise(process: int, listener: int, folder: Path, fault: Fault | None, ended: Ended) -> None:
    poller = select.poll()
    poller.register(listener, select.POLLIN)
    last = time.monotonic() + SECONDS
    try:
        while time.monotonic() < last:
            for _, events in poller.poll(1000):
                if not events & select.POLLIN:  # nobody is left to ask
                    return
                asked = receive(listener)
                if asked is not None:
                    error = _error(asked, folder, fault, ended)
                    if error is None:
                        os.kill(process, signal.SIGKILL)
                        return
                    answer(listener, asked, error)
    finally:
        os.close(listener)
    raise AssertionError(f"it still runs after {SECONDS:.0f} s")


def _error(asked: Asked, folder: Path, fault: Fault | None, ended: Ended) -> int | None:
    """The error to answer with, 0 to go on; `None` to kill the process."""
    inside = [str(path.relative_to(folder)) for path in asked.paths if path.is_relative_to(folder)]
    assert asked.name != "io_uring_setup", "writes through io_uring would not be seen"
    if not inside:
        return 0
    assert asked.name != "mmap", f"{inside[0]} is written through a mapping, which would not be seen"
    ended.writes.append(" ".join([asked.name, *inside]))
    if fault is None or len(ended.writes) < fault.at:
        return 0
    if fault.kind == "kill":
        return None
    # On a full disk files can be removed; a name can be given where another has just been taken away.
    works = asked.kind.frees or (asked.kind.moves and len(ended.writes) > fault.at)
    return 0 if works else errno.ENOSPC


def _child(action: Callable[[], None], folder: Path, to: socket.socket, files: list[int]) -> None:
    code = 70
    try:
        os.dup2(files[0], 1)
        os.dup2(files[1], 2)
        sys.stdin = io.StringIO()
        sys.stdout, sys.stderr = (io.TextIOWrapper(io.FileIO(number, "w", closefd=False)) for number in (1, 2))
        os.chdir(folder)
        (folder / "tmp").mkdir(exist_ok=True)
        tempfile.tempdir = str(folder / "tmp")
        listener = ask_before_writes()
        socket.send_fds(to, [b"!"], [listener])
        os.close(listener)
        to.close()
        action()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
            os.write(files[2], " ".join(sys.modules).encode())
        finally:
            os._exit(code)
