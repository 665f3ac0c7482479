"""Encoders on torch after a fork: with one thread on the CPU, and one sentence on a GPU."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import zoo
from forks import in_fork

from demitasse import load
from demitasse.torch_model.forks import mind_fork

pytestmark = pytest.mark.posix
TEXTS = zoo.sentences(100)


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_torch_with_several_threads_works_after_a_fork(model_folder: Callable[..., Path]) -> None:
    encoder = load(model_folder("MiniLM shape"), device="cpu", threads=2)
    assert torch.get_num_threads() == 2
    expected = encoder.encode(TEXTS)
    np.testing.assert_allclose(in_fork(lambda: encoder.encode(TEXTS)), expected, atol=1e-5)

    def load_there() -> int:
        load(model_folder(), device="cpu", threads=2).encode(TEXTS)
        return torch.get_num_threads()

    assert in_fork(load_there) == 1  # more would wait for threads that are not in the fork
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_a_fork_that_is_the_first_to_use_torch_keeps_its_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(2)
    monkeypatch.setattr("demitasse.torch_model.forks._first", None)

    def threads() -> int:
        mind_fork(torch.device("cpu"))
        return torch.get_num_threads()

    assert in_fork(threads) == 2


def test_a_gpu_in_a_fork_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    mind_fork(torch.device("cpu"))
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: True)
    with pytest.raises(AssertionError, match="DeviceError: cuda:0 cannot be used in a fork of a process"):
        in_fork(lambda: mind_fork(torch.device("cuda:0")))
    in_fork(lambda: mind_fork(torch.device("cpu")))


@pytest.mark.cuda
def test_the_gpu_of_this_machine_in_a_fork(model_folder: Callable[..., Path]) -> None:
    encoder = load(model_folder(), device="cuda")
    expected = encoder.encode(TEXTS)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(encoder)).encode(TEXTS), expected)
    for work in (
        lambda: encoder.encode(TEXTS),
        lambda: load(model_folder()),
        lambda: load(model_folder(), device="cuda"),
    ):
        with pytest.raises(AssertionError, match=r"DeviceError: cuda.* cannot be used in a fork"):
            in_fork(work)
    on_cpu = in_fork(lambda: load(model_folder(), device="cpu").encode(TEXTS))
    np.testing.assert_allclose(on_cpu, expected, atol=1e-3)
    np.testing.assert_array_equal(encoder.encode(TEXTS), expected)
