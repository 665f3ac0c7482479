"""Processes that replace a model folder while others load it, for a minute: `pytest -m soak -s`."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from demitasse import Encoder, FolderError, load

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
    print(f"\n{way}: {saves} saves by two processes; {dict(seen)}")
