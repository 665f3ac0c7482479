"""Work done in a fork of this process, with an end to the waiting: what goes wrong after a fork is a hang."""

from __future__ import annotations

import os
import pickle
import select
import signal
import traceback
import warnings
from collections.abc import Callable
from typing import Any

PATIENCE = 120  # seconds, however busy the machine is


def in_fork(work: Callable[[], Any]) -> Any:
    """What `work` gives in a fork of this process; an error there is raised here."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of every fork beside threads
        child = os.fork()
    if child == 0:
        try:
            answer = (True, work())
        except BaseException as problem:
            answer = (False, f"{type(problem).__name__}: {problem}\n{traceback.format_exc()}")
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(answer, pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answered, _, _ = select.select([pipe], [], [], PATIENCE)
        if not answered:
            os.kill(child, signal.SIGKILL)
        data = pipe.read()
    os.waitpid(child, 0)
    if not answered:
        raise AssertionError(f"the fork gave no answer in {PATIENCE} s")
    good, result = pickle.loads(data)
    if not good:
        raise AssertionError(result)
    return result
