"""Small models made in memory: no network, no downloads."""

from __future__ import annotations

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest
import torch
import zoo

from demitasse.encoder import Encoder
from demitasse.loading import load

hypothesis.settings.register_profile("demitasse", deadline=None)  # a busy machine is no failure
hypothesis.settings.load_profile("demitasse")
torch.set_num_threads(1)  # tiny models gain nothing from more, and lose much where other work runs beside the tests


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A sentence-transformers folder of a tiny random model, by architecture."""
    made: dict[tuple[object, ...], Path] = {}

    def make(name: str = "BERT", **options: object) -> Path:
        key = (name, *sorted(options.items()))
        if key not in made:
            made[key] = zoo.write_folder(tmp_path_factory.mktemp("model") / "tiny", name, **options)
        return made[key]

    return make


@pytest.fixture(autouse=True)
def _examples(
    doctest_namespace: dict[str, object],
    model_folder: Callable[..., Path],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    """What the examples in docstrings start from."""
    if isinstance(request.node, pytest.DoctestItem):
        doctest_namespace.update(
            encoder=request.getfixturevalue("encoder"),
            folder=model_folder("BERT"),
            out=tmp_path / "out",
            sentences=zoo.sentences(300),
        )


@pytest.fixture(scope="session")
def encoder(model_folder: Callable[..., Path]) -> Encoder:
    """A tiny BERT of 3 layers and 32 dims."""
    return load(model_folder("BERT"), device="cpu")
