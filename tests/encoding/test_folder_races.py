"""Processes that replace a model folder while others load it, for a minute: `pytest -m soak -s`."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from soak_results import told

from demitasse import Encoder, FolderError, load
from demitasse.encoding.listed_files import ListedFiles
from demitasse.encoding.manifest import MANIFEST, Manifest

TEXTS = ["a small cup", "the bank of the river"]
SECONDS = 30.0
CHANGED = "was changed after it was loaded; load the model again"

SAVER = """
import sys, time
from pathlib import Path
import demitasse
from demitasse.host import atomic

target, way, ends = Path(sys.argv[1]), sys.argv[2], time.time() + float(sys.argv[3])
if way == "renames":
    atomic.exchange = lambda one, other: False
model = demitasse.load()
saved = 0
while time.time() < ends:
    model.cut(layers=saved % 2, dims=64).save(target)
    saved += 1
print(saved)
"""


@pytest.mark.soak
@pytest.mark.posix
@pytest.mark.parametrize("way", ["exchange", "renames"])
def test_loading_while_others_save_gives_the_old_or_the_new_model(way: str, tmp_path: Path) -> None:
    target = tmp_path / "m"
    model = load()
    expected = {layers: model.cut(layers, 64).encode(TEXTS) for layers in (0, 1)}
    model.cut(0, 64).save(target)
    command = [sys.executable, "-c", SAVER, str(target), way, str(SECONDS)]
    savers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    seen: Counter[str] = Counter()
    while any(saver.poll() is None for saver in savers):
        encoder: Encoder = load(target)  # never fails
        layers = encoder.full.layers
        seen[f"loaded at {layers} layers"] += 1
        try:
            np.testing.assert_array_equal(encoder.encode(TEXTS), expected[layers])
            seen["encoded"] += 1
        except FolderError as problem:
            seen[str(problem).partition(" ")[2]] += 1
        time.sleep(0.02)
    saves = sum(int(saver.communicate()[0]) for saver in savers)
    assert all(saver.returncode == 0 for saver in savers)
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    expected_outcomes = {"loaded at 0 layers", "loaded at 1 layers", "encoded", CHANGED}
    assert set(seen) <= expected_outcomes
    loads = seen["loaded at 0 layers"] + seen["loaded at 1 layers"]
    outcomes = {"encoded right": seen["encoded"], "told that it changed": seen[CHANGED]}
    told("a model is saved by two processes while it is loaded", way=way, saves=saves, loads=loads, **outcomes)


WRITER = """
import sys, time
from pathlib import Path
from demitasse.encoding.manifest import Manifest, own_files
from demitasse.host import atomic

target, way, ends, number = Path(sys.argv[1]), sys.argv[2], time.time() + float(sys.argv[3]), int(sys.argv[4])
if way == "renames":
    atomic.exchange = lambda one, other: False
first = number
while time.time() < ends:
    with atomic.new_folder(target, own_files) as aside:
        for name in "abc":
            (aside / name).write_text(f"{number} " * (1 + number % 3))
        Manifest(aside, {"schema": 1, "kind": "onnx", "number": number}).with_files().write()
    number += 1
print(number - first)
"""


@pytest.mark.soak
@pytest.mark.posix
@pytest.mark.parametrize("way", ["exchange", "renames"])
def test_small_folders_replaced_hundreds_of_times_are_read_whole(way: str, tmp_path: Path) -> None:
    target = tmp_path / "m"
    commands = [[sys.executable, "-c", WRITER, str(target), way, "15", str(10**6 * first)] for first in (1, 2, 3)]
    writers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]
    while not target.exists():
        time.sleep(0.01)
    seen: Counter[str] = Counter()
    while any(writer.poll() is None for writer in writers):
        try:
            manifest = Manifest.read(target)
            if manifest is None:
                seen["absent for a moment"] += 1
                continue
            files = ListedFiles(manifest)
            read = {files.read(name).decode() for name in "abc"}
        except FolderError:
            seen["changed while it was read"] += 1
            continue
        number = manifest.fields["number"]
        assert read == {f"{number} " * (1 + number % 3)}
        seen["whole"] += 1
    saves = sum(int(writer.communicate()[0]) for writer in writers)
    assert all(writer.returncode == 0 for writer in writers)
    assert way == "renames" or not seen["absent for a moment"]
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    assert sorted(path.name for path in target.iterdir()) == ["a", "b", "c", MANIFEST]
    told("a folder is replaced by three processes while it is read", way=way, saves=saves, **seen)
