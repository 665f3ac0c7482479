"""Fixtures of the command-line tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from profiles import made_profile


@pytest.fixture
def model(model_folder: Callable[..., Path]) -> Path:
    """The folder of a tiny BERT of 3 layers and 32 dims."""
    return model_folder("BERT")


@pytest.fixture
def profile_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a made-up profile, old.json, and a slower and worse one, new.json."""
    monkeypatch.chdir(tmp_path)
    made_profile().save("old.json")
    made_profile(slower=1.3, worse=1.0).save("new.json")
    return tmp_path
