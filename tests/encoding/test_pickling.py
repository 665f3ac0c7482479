"""Encoders pickled, copied, in threads and in pools of processes, with the vectors of this process."""

from __future__ import annotations

import asyncio
import copy
import multiprocessing
import pickle
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
import zoo

from demitasse import Cut, Encoder, FolderError, load
from demitasse.encoding import block_encoder
from demitasse.encoding.block_encoder import BlockEncoder
from demitasse.host.bundled import BUILT_IN, corpus
from demitasse.torch_model.torch_encoder import TorchEncoder

TEXTS = corpus()[:60]
BATCHES = [TEXTS[:30], TEXTS[30:]]


@pytest.fixture(autouse=True)
def nothing_kept() -> None:
    """As in a process that has unpickled nothing yet."""
    block_encoder.reopened.cache_clear()


@pytest.fixture(scope="module", params=["blocks", "torch"])
def any_encoder(request: pytest.FixtureRequest, encoder: Encoder) -> Encoder:
    return load(max_seq_length=40, threads=2).cut(2, 64) if request.param == "blocks" else encoder.cut(2, 16)


def test_an_encoder_can_be_pickled(any_encoder: Encoder) -> None:
    expected = any_encoder.encode(TEXTS)
    for way in (pickle, cloudpickle):
        again = pickle.loads(way.dumps(any_encoder))
        assert again is not any_encoder
        assert (again.full, again.max_seq_length, repr(again)) == (
            any_encoder.full,
            any_encoder.max_seq_length,
            repr(any_encoder),
        )
        assert again.fingerprint == any_encoder.fingerprint
        np.testing.assert_array_equal(again.encode(TEXTS), expected)
    assert getattr(again, "threads", None) == getattr(any_encoder, "threads", None)


def test_blocks_are_pickled_as_their_place(any_encoder: Encoder) -> None:
    size = len(pickle.dumps(any_encoder))
    weights = any_encoder.model_bytes(any_encoder.full)
    assert size < 1000 if isinstance(any_encoder, BlockEncoder) else size > weights


def test_an_encoder_is_its_own_copy(any_encoder: Encoder) -> None:
    assert copy.copy(any_encoder) is copy.deepcopy(any_encoder) is any_encoder
    assert copy.deepcopy({"model": any_encoder})["model"] is any_encoder


def test_a_pickle_of_a_torch_encoder_leaves_out_what_belongs_to_a_process(encoder: TorchEncoder) -> None:
    cut = encoder.cut(1, 8)
    cut.__dict__["_busy_reader"] = threading.Lock()  # stands for pipes to other processes
    assert "_busy_reader" not in vars(pickle.loads(pickle.dumps(cut)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    load().cut(1, 32).save(tmp_path / "model")
    return tmp_path / "model"


def test_a_folder_that_changed_is_not_opened_for_a_pickled_encoder(folder: Path) -> None:
    pickled = pickle.dumps(load(folder))
    assert pickle.loads(pickled).full == Cut(1, 32)
    block_encoder.reopened.cache_clear()
    shutil.rmtree(folder)
    built_in = load()
    built_in.cut(1, 16).save(folder)  # narrower
    with pytest.raises(FolderError, match="holds another model than when this encoder was pickled"):
        pickle.loads(pickled)
    built_in.cut(2, 32).save(folder)  # deeper: the same cut of it has the same vectors
    assert pickle.loads(pickled).full == Cut(1, 32)
    block_encoder.reopened.cache_clear()
    shutil.rmtree(folder)
    with pytest.raises(FolderError, match="holds no blocks; put them back there"):
        pickle.loads(pickled)


def test_the_built_in_model_is_found_wherever_it_is_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pickled = pickle.dumps(load())
    moved = shutil.copytree(BUILT_IN, tmp_path / "elsewhere")
    monkeypatch.setattr(block_encoder, "BUILT_IN", moved)
    assert pickle.loads(pickled).folder == moved


def test_a_pool_opens_an_encoder_once(folder: Path) -> None:
    pickled = pickle.dumps(load(folder).encode)
    assert pickle.loads(pickled).__self__ is pickle.loads(pickled).__self__


@pytest.mark.parametrize("start", [pytest.param("fork", marks=pytest.mark.posix), "spawn"])
def test_a_pool_of_processes_encodes(start: str) -> None:
    encoder = load(threads=1).cut(1, 32)
    with multiprocessing.get_context(start).Pool(2) as pool:
        vectors = pool.map(encoder.encode, BATCHES)
    np.testing.assert_array_equal(np.concatenate(vectors), np.concatenate([*map(encoder.encode, BATCHES)]))


def test_threads_and_asyncio_share_an_encoder() -> None:
    encoder = load().cut(1, 32)
    expected = [encoder.encode(batch) for batch in BATCHES]

    async def both() -> list[Any]:
        return await asyncio.gather(*(asyncio.to_thread(encoder.encode, batch) for batch in BATCHES))

    for given, vectors in zip(asyncio.run(both()), expected, strict=True):
        np.testing.assert_array_equal(given, vectors)


def test_one_thread_starts_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, seen = load(threads=1).cut(1, 32), set()
    real = BlockEncoder._embed

    def embed(self: BlockEncoder, *arguments: Any) -> Any:
        seen.add(threading.get_ident())
        return real(self, *arguments)

    monkeypatch.setattr(BlockEncoder, "_embed", embed)
    vectors = encoder.encode(corpus())
    assert seen == {threading.get_ident()}
    np.testing.assert_allclose(vectors, load().cut(1, 32).encode(corpus()), atol=1e-5)


@pytest.mark.soak
@pytest.mark.posix
@pytest.mark.parametrize("start", ["fork", "spawn", "forkserver"])
def test_pools_of_every_kind(start: str, model_folder: Callable[..., Path]) -> None:
    for encoder, texts in ((load().cut(2, 64), TEXTS), (load(model_folder(), device="cpu"), zoo.sentences(60))):
        batches = [texts[n::4] for n in range(4)]
        expected = [encoder.encode(batch) for batch in batches]
        with multiprocessing.get_context(start).Pool(2) as pool:
            for given, vectors in zip(pool.map(encoder.encode, batches), expected, strict=True):
                np.testing.assert_allclose(given, vectors, atol=1e-5)
        print(f"{start}: a pool of 2 gave the vectors of {encoder!r}")


@pytest.mark.soak
def test_joblib(model_folder: Callable[..., Path]) -> None:
    from joblib import Parallel, delayed

    for encoder in (load().cut(2, 64), load(model_folder(), device="cpu")):
        given = Parallel(n_jobs=2)(delayed(encoder.encode)(batch) for batch in BATCHES)
        np.testing.assert_allclose(np.concatenate(given), encoder.encode(TEXTS), atol=1e-5)
        print(f"joblib: two workers gave the vectors of {encoder!r}")
