"""Fixtures of all tests: small models made in memory, without a network, and the command line."""

from __future__ import annotations

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"

import importlib.util
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import hypothesis
import pytest
import system_calls
import torch
import zoo
from command_line import RunCommand, run_command

from demitasse.encoding.encoder import Encoder
from demitasse.encoding.loading import load

# Integrations with libraries that only `make adapters` installs: elsewhere there is nothing to import.
LARGE = {"chroma": "chromadb", "lancedb": "lancedb", "llama_index": "llama_index"}
collect_ignore = ["tests/contracts"]  # `make contracts` runs them, in an environment of their own
collect_ignore += [
    path
    for name, module in LARGE.items()
    if importlib.util.find_spec(module) is None
    for path in (f"src/demitasse/integrations/{name}.py", f"tests/integrations/test_{name}.py")
]

hypothesis.settings.register_profile("demitasse", deadline=None)  # a busy machine is not a failure
hypothesis.settings.load_profile("demitasse")
torch.set_num_threads(1)  # tiny models gain nothing from more, and lose a lot when other work runs beside the tests


def pytest_configure(config: pytest.Config) -> None:
    """Let the processes of pytest-xdist print with `-s`: their own stdout ends nowhere, their stderr is ours."""
    if config.option.capture == "no" and hasattr(config, "workerinput"):
        sys.stdout = sys.stderr


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests that need a GPU or seccomp where there is none, and the long ones unless they are asked for.

    A mark that is asked for is in `-m`.
    """
    absent = [] if torch.cuda.is_available() else ["cuda"]
    if not system_calls.available():
        absent.append("seccomp")
    absent += [mark for mark in ("soak", "adapters", "ray") if mark not in config.option.markexpr]
    left_out = [item for item in items if any(item.get_closest_marker(mark) for mark in absent)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Writes a sentence-transformers folder of a tiny random model, given its architecture."""
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
    """The names that examples in docstrings use."""
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


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> RunCommand:
    """Runs a command, such as `run("encode", "a text")`."""
    return partial(run_command, monkeypatch, capfdbinary)
