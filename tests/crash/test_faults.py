"""The harness itself: it sees the writes of every library that demitasse writes with, and its faults are faults."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from crash_workshop import distinct, moved_before_synced
from faults import Fault, run_watched
from safetensors.torch import save_file
from tokenizers import Tokenizer, models

pytestmark = pytest.mark.seccomp
NUMBERS = np.arange(1 << 16, dtype=np.float32)


def by_numpy(path: Path) -> None:
    with path.open("wb") as file:
        NUMBERS.tofile(file)  # through a FILE of C


WRITERS: dict[str, Callable[[Path], object]] = {
    "python": lambda path: path.write_bytes(NUMBERS.tobytes()),
    "numpy": by_numpy,
    "safetensors": lambda path: save_file({"a": torch.from_numpy(NUMBERS)}, path),
    "torch": lambda path: torch.save(torch.from_numpy(NUMBERS), path),
    "tokenizers": lambda path: Tokenizer(models.WordLevel({"a": 0}, unk_token="a")).save(str(path)),
}


@pytest.mark.parametrize("library", WRITERS)
def test_every_write_is_seen_killed_and_refused(library: str, tmp_path: Path) -> None:
    path = tmp_path / "file"

    def write() -> None:
        WRITERS[library](path)

    whole = run_watched(write, tmp_path)
    assert whole.code == 0, whole.err
    content = path.read_bytes()
    number = next(number for number, written in enumerate(whole.writes, 1) if written.startswith("write"))
    for fault in (Fault("kill", number), Fault("full", number)):
        path.unlink(missing_ok=True)
        ended = run_watched(write, tmp_path, fault)
        assert ended.code == (-9 if fault.kind == "kill" else 1)
        assert not path.exists() or path.read_bytes() != content


def test_a_mapping_that_is_written_to_is_an_error_of_the_test(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="written through a mapping"):
        run_watched(lambda: np.memmap(tmp_path / "file", np.uint8, "w+", shape=9).__setitem__(0, 1), tmp_path)


def test_a_name_that_appears_before_its_bytes_are_on_the_disk_is_told() -> None:
    aside = ["openat out/.m.part", "write out/.m.part", "rename out/.m.part out/m"]
    assert list(moved_before_synced(aside)) == aside[2:]
    assert list(moved_before_synced([*aside[:2], "fsync out/.m.part", aside[2]])) == []
    folder = ["mkdir out/.m.part", "openat out/.m.part/a", "rename out/.m.part out/m"]
    assert list(moved_before_synced(folder)) == folder[2:]


def test_of_many_writes_to_a_file_three_are_tried() -> None:
    assert distinct(["open a", *["write a"] * 9, "fsync a", "write b"]) == [1, 2, 3, 10, 11, 12]
