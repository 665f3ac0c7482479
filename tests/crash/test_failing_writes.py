"""The same as test_crashes.py inside this process: less is seen, but on every platform."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from failing_writes import Killed, Watch, watching
from trees import Tree, tree

from demitasse import Cut, Encoder, FullDisk, load
from demitasse.host import leftovers
from demitasse.host.json_files import save_result

SWEPT_AT_ONCE = leftovers.fcntl is not None  # elsewhere after a day


def save(encoder: Encoder, target: Path) -> None:
    encoder.cut(2, 16).save(target)


def write_json(encoder: Encoder, target: Path) -> None:
    save_result({"kind": "profile", "numbers": list(range(9999))}, target)


Writer = Callable[[Encoder, Path], None]


def disturbed(write: Writer, encoder: Encoder, target: Path, watch: Watch, states: list[Tree]) -> None:
    """Write with a fault, check what there is, and write again."""
    with pytest.raises(Killed if watch.kind == "kill" else FullDisk), watching(watch):
        write(encoder, target)
    found, last = tree(target), watch.changes[-1]
    # On a full disk the target stays as it was; only the name of its folder may not be synced yet.
    assert found in (states if watch.kind == "kill" else states[:1]), last
    write(encoder, target)
    assert tree(target) == states[1], last
    if SWEPT_AT_ONCE:
        assert [path.name for path in target.parent.iterdir()] == [target.name], last


@pytest.mark.parametrize("older", [False, True], ids=["new", "replacing"])
@pytest.mark.parametrize("write", [save, write_json], ids=lambda write: write.__name__)
def test_nothing_is_lost(write: Writer, older: bool, encoder: Encoder, tmp_path: Path) -> None:
    target = tmp_path / "out" / "it"

    def begin() -> None:
        shutil.rmtree(target.parent, ignore_errors=True)
        target.parent.mkdir()
        if older:
            save_result({"kind": "older"}, target) if write is write_json else encoder.cut(1, 8).save(target)

    begin()
    before = tree(target)
    with watching(Watch(target.parent)) as whole:
        write(encoder, target)
    states = [before, tree(target)]
    assert states[1] not in ({}, before)
    space = [at for at, change in enumerate(whole.changes, 1) if not change.startswith(("os.remove", "os.rmdir"))]
    for kind, numbers in (("kill", range(1, len(whole.changes) + 1)), ("full", space)):
        for at in {numbers[-1], random.choice(numbers)} if write is save else numbers:
            begin()
            disturbed(write, encoder, target, Watch(target.parent, kind, at), states)


def test_the_vectors_of_what_is_there_are_right(encoder: Encoder, tmp_path: Path) -> None:
    """A save that is killed somewhere, loaded: every vector is one of the old model or of the new one."""
    encoder.cut(1, 8).save(tmp_path / "m")
    with watching(Watch(tmp_path)) as whole:
        save(encoder, tmp_path / "m")
    for at in (random.randint(1, len(whole.changes)), len(whole.changes)):
        encoder.cut(1, 8).save(tmp_path / "m")
        with pytest.raises(Killed), watching(Watch(tmp_path, "kill", at)):
            save(encoder, tmp_path / "m")
        found = load(tmp_path / "m", device="cpu")
        assert found.full in (Cut(1, 8), Cut(2, 16)), whole.changes[at - 1]
        expected = encoder.cut(found.full).encode(["kan lor", "mist"])
        np.testing.assert_allclose(found.encode(["kan lor", "mist"]), expected, atol=1e-6)
