"""Commands killed, or finding the disk full, at a write: the target is absent, old or new, and the next run succeeds.

By default a few writes of some commands are tried, some of them chosen at random; `make soak` tries all of them.
"""

from __future__ import annotations

import random

import pytest
from crash_operations import OPERATIONS, Operation
from crash_workshop import Workshop, distinct
from faults import Fault
from soak_results import told

pytestmark = pytest.mark.seccomp
SHARES = [
    pytest.param(operation, share, id=operation.name + f", share {share}" * (operation.shares > 1))
    for operation in OPERATIONS
    for share in range(operation.shares)
]
SOME = [operation for operation in OPERATIONS if operation.by_default]


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("crashes"))


def named(operation: Operation) -> str:
    return operation.name


@pytest.mark.parametrize("operation", SOME, ids=named)
def test_nothing_is_lost(operation: Operation, workshop: Workshop) -> None:
    writes = workshop.undisturbed(operation).writes
    renames = [number for number, write in enumerate(writes, 1) if write.startswith("rename")]
    # SQLite commits by removing its journal.
    takes_place = max(renames or [number for number, write in enumerate(writes, 1) if write.startswith("unlink")])
    chosen = [("kill", takes_place), ("kill", random.randint(1, len(writes))), ("full", random.randint(1, len(writes)))]
    for kind, number in chosen:
        workshop.disturb(operation, Fault(kind, number))


@pytest.mark.soak
@pytest.mark.parametrize(("operation", "share"), SHARES)
def test_nothing_is_lost_at_any_write(operation: Operation, share: int, workshop: Workshop) -> None:
    writes = workshop.undisturbed(operation).writes
    numbers, lost = distinct(writes)[share :: operation.shares], list[str]()
    for kind in ("kill", "full"):
        for number in numbers:
            try:
                workshop.disturb(operation, Fault(kind, number))
            except AssertionError as problem:
                lost.append(str(problem))
    counts = {"writes": len(writes), "kills": len(numbers), "full disks": len(numbers), "lost": len(lost)}
    told("crashes", operation=operation.name, **counts)
    assert not lost, "\n".join(lost)


@pytest.mark.soak
@pytest.mark.parametrize("operation", OPERATIONS, ids=named)
def test_a_small_disk_that_is_really_full(operation: Operation, workshop: Workshop) -> None:
    """A tmpfs a little larger each time, until the command succeeds: here the last write is cut short, too."""
    room = full = 0
    while not workshop.on_a_small_disk(operation, room):
        full += 1
        room += max(4, room // 8)
    told("small disks", operation=operation.name, **{"too small": full, "KiB that were enough": room})
    assert full
