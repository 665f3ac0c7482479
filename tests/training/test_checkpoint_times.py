from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch
import zoo
from interruptions import fail_after_saving
from safetensors.torch import load_file

import demitasse as dt
from demitasse.torch_model.torch_encoder import TorchEncoder
from demitasse.training.run import Run
from demitasse.training.run_folder import CHECKPOINT, RunFolder


def pairs() -> dt.Pairs:
    texts = zoo.sentences(80, seed=5)
    return dt.read_pairs(list(zip(texts[::2], texts[1::2], strict=True)))


def test_a_checkpoint_is_due_after_some_minutes_or_steps() -> None:
    now = 100.0
    options = dt.TrainOptions(save_every=500, save_minutes=5)
    run = Run(*[None] * 5, options, None, None, [], clock=lambda: now, saved_at=100.0)  # type: ignore[arg-type]
    assert not run._is_time_to_save(1)
    assert run._is_time_to_save(500)
    now = 399.9
    assert not run._is_time_to_save(2)
    now = 400.0
    assert run._is_time_to_save(2)


def test_a_short_run_that_is_killed_goes_on_from_its_last_minutes(
    encoder: TorchEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Far fewer steps than `save_every`: nothing but the time makes it save."""
    options = dt.TrainOptions(steps=5, batch=8, rate=1e-3, save_every=500, save_minutes=1e-9)
    train = partial(dt.train, encoder, pairs(), dt.Matryoshka((8, 32)), options=options)
    train(out=tmp_path / "whole")
    with monkeypatch.context() as patch, pytest.raises(MemoryError):
        fail_after_saving(patch, times=3)
        train(out=tmp_path / "parts")
    assert RunFolder(tmp_path / "parts", writes=False).saved()["total"] == 3
    train(out=tmp_path / "parts", resume=True)
    whole, parts = (load_file(tmp_path / name / "model" / "model.safetensors") for name in ("whole", "parts"))
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_time_alone_saves_nothing_early(encoder: TorchEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = dt.TrainOptions(steps=5, batch=8, save_every=500, save_minutes=1e9)
    with monkeypatch.context() as patch, pytest.raises(MemoryError):
        fail_after_saving(patch, times=1)
        dt.train(encoder, pairs(), dt.Matryoshka((8, 32)), out=tmp_path / "run", options=options)
    assert RunFolder(tmp_path / "run", writes=False).saved()["total"] == 5
    assert (tmp_path / "run" / CHECKPOINT).is_file()
