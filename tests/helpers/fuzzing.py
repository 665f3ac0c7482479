"""Runs cases that may crash, hang or fill the memory, each in a child process with limits, and says how each ended."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from demitasse.errors import DemitasseError

CPU_SECONDS = 20.0  # of one case, far more than any needs on a slow machine
WALL_SECONDS = 300.0  # for one that waits forever
MORE_MEMORY = 1 << 30  # bytes a child may take beyond what this process has
LONGEST_SENTENCE = 600  # characters
_OUT_OF_MEMORY = ("bad alloc", "bad_alloc", "failed to allocate", "out of memory", "memoryerror", "cannot allocate")


@dataclass
class Ended:
    """How the cases of one kind ended; `findings` are those that must be cured."""

    counts: Counter[str] = field(default_factory=Counter)  # refused, right
    findings: list[tuple[int, str]] = field(default_factory=list)  # the case, and what happened
    sentences: Counter[str] = field(default_factory=Counter)  # of those that were refused
    large: bool = False

    @property
    def cases(self) -> int:
        return sum(self.counts.values()) + len(self.findings)


def in_children(count: int, case: Callable[[int], str | None], *, large: bool = False) -> Ended:
    """Call `case` with each number below `count`; it returns what is wrong with a result, if anything is.

    With `large`, a case may say that it ran out of memory.
    """
    ended, begin = Ended(large=large), 0
    while begin < count:
        begin = _one_child(begin, count, case, ended)
    return ended


def _one_child(begin: int, count: int, case: Callable[[int], str | None], ended: Ended) -> int:
    """Run cases from `begin` on until the child ends; returns the first that has not been run."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python 3.12 warns of forks in processes with threads
        child = os.fork()
    if child == 0:
        _in_child(range(begin, count), case, write, large=ended.large)
    os.close(write)
    done = begin
    with os.fdopen(read, encoding="utf-8") as lines:
        for line in lines:
            if line.endswith("\n"):
                outcome, detail = json.loads(line)
                if outcome == "finding":
                    ended.findings.append((done, detail))
                else:
                    ended.counts[outcome] += 1
                    ended.sentences.update([detail] * (outcome == "refused"))
                done += 1
    _, status = os.waitpid(child, 0)
    if done < count:
        ended.findings.append((done, _death(status)))
        done += 1
    return done


def _death(status: int) -> str:
    if not os.WIFSIGNALED(status):
        return f"the process ended with exit code {os.waitstatus_to_exitcode(status)}"
    name = signal.Signals(os.WTERMSIG(status)).name
    meaning = {"SIGPROF": f"more than {CPU_SECONDS:g} s of CPU", "SIGALRM": "it waits forever"}
    return f"killed by {name}" + (f": {meaning[name]}" if name in meaning else "")


def _in_child(cases: Sequence[int], case: Callable[[int], str | None], write: int, *, large: bool) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)  # panics and native libraries print whatever they like
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    for number in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    limit = _address_space() + MORE_MEMORY
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    warnings.simplefilter("ignore")
    os.fsync = lambda handle: None  # what is written is thrown away
    for number in cases:
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        signal.setitimer(signal.ITIMER_REAL, WALL_SECONDS)
        os.write(write, (json.dumps(_outcome(case, number, large=large)) + "\n").encode())
    os._exit(0)


def _outcome(case: Callable[[int], str | None], number: int, *, large: bool) -> tuple[str, str]:
    try:
        wrong = case(number)
    except DemitasseError as problem:
        return _judged(str(problem), large=large)
    except BaseException as problem:
        place = traceback.extract_tb(problem.__traceback__)[-4:]
        return "finding", f"{type(problem).__name__}: {str(problem)[:200]} at " + " < ".join(
            f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in reversed(place)
        )
    return ("right", "") if wrong is None else ("finding", wrong)


def _judged(sentence: str, *, large: bool) -> tuple[str, str]:
    """A refusal is right if it is one printable sentence, and not one about memory that ran out."""
    if not sentence.strip() or "\n" in sentence or "\r" in sentence:
        return "finding", f"not one line: {sentence[:200]!a}"
    if len(sentence) > LONGEST_SENTENCE:
        return "finding", f"{len(sentence)} characters: {sentence[:200]!a}"
    if not large and any(words in sentence.lower() for words in _OUT_OF_MEMORY):
        return "finding", f"out of memory: {sentence[:300]!a}"
    return "refused", sentence


def _address_space() -> int:
    if sys.platform != "linux":
        return 0
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
