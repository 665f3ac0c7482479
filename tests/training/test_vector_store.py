from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from demitasse.errors import DemitasseError, FolderError
from demitasse.training.vector_store import VectorStore, store_name


def hashes(*values: int) -> np.ndarray:
    return np.array(values, np.uint64)


def vectors(count: int, dims: int = 4, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, dims)).astype(np.float16)


def read(store: VectorStore, texts: np.ndarray) -> np.ndarray:
    found = np.zeros((len(texts), store.dims), np.float16)
    for chosen, rows in store.parts(texts):
        found[chosen] = rows
    return found


def test_each_text_has_its_own_vector_whatever_file_it_is_in(tmp_path: Path) -> None:
    store, given = VectorStore(tmp_path / "teacher", 4), vectors(5)
    store.add(hashes(9, 2**64 - 1, 7), given[:3])
    store.add(hashes(1, 3), given[3:])
    assert store.missing(hashes(7, 8, 2**64 - 1)).tolist() == [False, True, False]
    np.testing.assert_array_equal(read(store, hashes(3, 7, 9, 7)), given[[4, 2, 0, 2]])
    np.testing.assert_array_equal(read(VectorStore(tmp_path / "teacher", 4), hashes(1)), given[[3]])


def test_no_texts_and_no_files(tmp_path: Path) -> None:
    store = VectorStore(tmp_path / "teacher", 4)
    assert read(store, hashes()).shape == (0, 4)
    assert store.missing(hashes(5)).all()
    with pytest.raises(FolderError, match="no vector of some text"):
        read(store, hashes(5))


def test_files_of_another_teacher_and_damaged_ones_are_refused(tmp_path: Path) -> None:
    store = VectorStore(tmp_path, 4)
    store.add(hashes(1), vectors(1))
    with pytest.raises(FolderError, match="another teacher"):
        read(VectorStore(tmp_path, 5), hashes(1))
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(DemitasseError, match=file.name):
        read(store, hashes(1))
    file.unlink()
    store.add(hashes(1), np.full((1, 4), np.inf, np.float16))
    with pytest.raises(FolderError, match="infinite"):
        read(store, hashes(1))


def test_names_of_folders_are_plain() -> None:
    assert store_name("/models/a b/", "f" * 64) == "a-b-" + "f" * 16
    assert store_name("..", "e" * 64) == "teacher-" + "e" * 16
