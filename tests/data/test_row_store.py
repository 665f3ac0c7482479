from __future__ import annotations

import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from row_files import ROWS, texts_of

from demitasse.data import row_store
from demitasse.data.pairs import read_pairs
from demitasse.errors import DataError


def test_the_hash_depends_on_the_order() -> None:
    assert read_pairs(ROWS).sources[0].sha256 != read_pairs(ROWS[::-1]).sources[0].sha256


def test_rows_are_read_by_index() -> None:
    source = read_pairs(ROWS).sources[0]
    assert source[-1].texts == ROWS[-1]
    for index in (3, -4):
        with pytest.raises(IndexError, match=f"has no row {index}; it has 3 rows"):
            source[index]


@given(st.lists(st.tuples(*[st.text(st.characters(exclude_categories=["Cs"])).filter(str.strip)] * 2), min_size=1))
def test_every_text_comes_back_unchanged(rows: list[tuple[str, str]]) -> None:
    assert texts_of(read_pairs(rows)) == rows


@pytest.mark.parametrize(("limit", "count"), [(1 << 16, 200_000), (1 << 28, 2_000)])
def test_rows_move_to_disk_beyond_the_limit(
    limit: int, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_store, "MAX_IN_MEMORY", limit)
    path = tmp_path / "many.jsonl"
    with path.open("w") as file:
        file.writelines(f'["anchor {n}", "positive {n}"]\n' for n in range(count))
    source = read_pairs(path).sources[0]
    assert len(source) == count
    assert source.stored._file._rolled == (count > 2_000)  # type: ignore[attr-defined]
    rows = range(0, count, 97)
    with ThreadPoolExecutor(4) as pool:
        for row, example in zip(rows, pool.map(source.__getitem__, rows), strict=True):
            assert example.texts == (f"anchor {row}", f"positive {row}")


def test_memory_does_not_grow_with_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_store, "MAX_IN_MEMORY", 1 << 16)
    path = tmp_path / "long.jsonl"
    with path.open("w") as file:
        file.writelines(f'["{n} {"a" * 2000}", "{n} {"b" * 2000}"]\n' for n in range(5000))
    tracemalloc.start()
    try:
        data = read_pairs(path)
        assert sum(1 for _ in data.texts(2)) == 2
        assert tracemalloc.get_traced_memory()[1] < 2 << 20  # of 20 MB
    finally:
        tracemalloc.stop()


def test_a_full_disk_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def __init__(self, max_size: int) -> None:
            pass

        def write(self, line: bytes) -> None:
            raise OSError(28, "No space left on device")

        def close(self) -> None:
            pass

    monkeypatch.setattr(row_store.tempfile, "SpooledTemporaryFile", Full)
    with pytest.raises(DataError, match=r"source 0 .*No space left.*TMPDIR"):
        read_pairs(ROWS)
