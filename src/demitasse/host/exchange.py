"""Two folders exchanged in one step, so that neither name is ever without its folder."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


def exchange(one: Path, other: Path) -> bool:
    """Exchange two paths of one file system; `False`, with nothing changed, where the system cannot."""
    renameat2 = _renameat2()
    if renameat2 is None:
        return False
    return bool(renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0)


@cache
def _renameat2() -> Any:
    """The function of the C library (Linux: glibc 2.28 or later), which Python does not offer."""
    if sys.platform != "linux":
        return None
    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is not None:
        function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    return function
