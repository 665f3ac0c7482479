"""Models for the guards of integrations: one, another of the same shape, and a folder whose model is replaced."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from demitasse.encoding.encoder import Encoder
from demitasse.encoding.loading import load

TEXTS = ["kan lor mist", "ruxes vafi", "zedor tobel kax", "sen sex"]


def other_encoder(model_folder: Callable[..., Path]) -> Encoder:
    """A model of as many layers and dims as the fixture `encoder`, in another space."""
    return load(model_folder("BERT", modes="cls"), device="cpu")


def copied(folder: Path, to: Path) -> Path:
    """A copy of a model's folder, which `replaced` may change."""
    return Path(shutil.copytree(folder, to))


def replaced(folder: Path, by: Path) -> None:
    """Put another model in the place of the one in `folder`."""
    shutil.rmtree(folder)
    shutil.copytree(by, folder)
