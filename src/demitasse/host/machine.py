"""What machine this is, how many cores this process may use, and which libraries are loaded."""

from __future__ import annotations

import operator
import os
import platform
import sys
from contextlib import suppress
from pathlib import Path

from demitasse._version import __version__
from demitasse.errors import DeviceError, shown

_MOST_THREADS = 1024
_LIBRARIES = ("numpy", "onnxruntime", "tokenizers", "torch", "transformers")


def machine() -> dict[str, str | int | float]:
    """The processor, how many cores may be used, gigabytes of memory where that is known, and the system."""
    facts: dict[str, str | int | float] = {"processor": processor(), "cores": cores()}
    with suppress(AttributeError, ValueError, OSError):  # Windows has no sysconf, and some systems lack these two names
        facts["memory_gb"] = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1)
    return {**facts, "system": f"{platform.system()} {platform.release()}"}


def processor() -> str:
    """What the processor calls itself."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def versions() -> dict[str, str]:
    """The versions of demitasse, Python and the libraries that are loaded."""
    modules = {name: sys.modules.get(name) for name in _LIBRARIES}  # None too where importing it is blocked
    loaded = {name: module.__version__ for name, module in modules.items() if module is not None}
    return {"demitasse": __version__, "python": platform.python_version(), **loaded}


def checked_threads(count: int) -> int:
    """`count` itself, if so many threads can be started."""
    try:
        number = operator.index(count)
    except TypeError:
        number = 0
    if isinstance(count, bool) or not 1 <= number <= _MOST_THREADS:
        raise DeviceError(f"threads={shown(count)} cannot be used; use a whole number from 1 to {_MOST_THREADS}")
    return number


def cores() -> int:
    """How many cores this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)  # not on macOS and Windows
    return len(allowed(0)) if allowed else os.cpu_count() or 1
