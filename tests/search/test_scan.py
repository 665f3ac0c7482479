"""Coarse to fine over several files, against sorting all cosines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from demitasse import DataError, FolderError, Scan
from demitasse.encoding.vectors import restore, store, unit_length
from demitasse.search import scan as scanning
from demitasse.search import tuning
from demitasse.search.catalog import SegmentEntry
from demitasse.search.scan import costs_of, nearest
from demitasse.search.segments import Layout, Segment, arrays_of, open_segment, write_segment


def clustered(count: int, dims: int, seed: int = 0) -> np.ndarray:
    chance = np.random.default_rng(seed)
    centres = np.random.default_rng(99).standard_normal((50, dims))
    return unit_length(centres[chance.integers(0, 50, count)] + chance.standard_normal((count, dims)))


def segment_of(folder: Path, vectors: np.ndarray, first_row: int = 1) -> Segment:
    rows = np.arange(first_row, first_row + len(vectors), dtype=np.int64)
    arrays = {name: [array] for name, array in arrays_of(rows, vectors).items()}
    written = write_segment(folder / f"{first_row}.i8", Layout(*vectors.shape), arrays)
    return open_segment(folder, SegmentEntry(1, written.file, len(vectors), written.sha256), vectors.shape[1])


@pytest.fixture
def files(tmp_path: Path) -> tuple[list[Segment], np.ndarray]:
    """Three files of 100 dims, and what they hold."""
    vectors = clustered(3000, 100)
    parts = [slice(0, 1000), slice(1000, 1001), slice(1001, 3000)]
    segments = [segment_of(tmp_path, vectors[part], part.start + 1) for part in parts]
    return segments, restore(store(vectors, "int8"), "int8")


@pytest.mark.parametrize("dims", [100, 64, 96, 17])
@pytest.mark.parametrize("coarse", ["none", "bits", "dims"])
def test_the_nearest_are_those_of_all_cosines(coarse: str, dims: int, files: tuple[list[Segment], np.ndarray]) -> None:
    segments, stored = files
    queries = unit_length(clustered(20, 100, seed=5)[:, :dims])
    cosines = queries @ unit_length(stored[:, :dims]).T
    found = nearest(segments, None, queries, 10, Scan(coarse, shortlist=2000))
    for query, one in enumerate(found):
        expected = np.sort(cosines[query])[::-1][:10]
        assert len(one.positions) == 10
        np.testing.assert_allclose(one.scores, cosines[query][one.positions], atol=1e-5)
        np.testing.assert_allclose(one.scores, expected, atol=0.02 if coarse != "none" else 1e-5)


@pytest.mark.parametrize("dims", [384, 320, 300, 256])
def test_first_bits_leave_what_all_bits_would_find(dims: int, tmp_path: Path) -> None:
    vectors, queries = clustered(3000, 384), unit_length(clustered(20, 384, seed=5)[:, :dims])
    segments = [segment_of(tmp_path, vectors[:1000]), segment_of(tmp_path, vectors[1000:], 1001)]
    mask = np.random.default_rng(1).random(3000) < 0.9
    scan = Scan("bits", shortlist=100)
    for living in (None, mask):
        all_bits = nearest(segments, living, queries, 10, scan)
        for first, least in ((3000, 1.0), (1000, 0.99), (200, 0.9)):
            found = nearest(segments, living, queries, 10, scan, first)
            shares = [len({*a.positions} & {*b.positions}) / 10 for a, b in zip(found, all_bits, strict=True)]
            assert np.mean(shares) >= least
            assert living is None or all(living[one.positions].all() for one in found)


def test_all_bits_are_the_first_and_the_others(tmp_path: Path) -> None:
    vectors, query = clustered(3000, 384), clustered(1, 384, seed=5)
    segments = [segment_of(tmp_path, vectors[:1000]), segment_of(tmp_path, vectors[1000:], 1001)]
    places = np.arange(0, 3000, 7)
    first = costs_of(segments, query, scanning.FIRST_BITS)[0]
    assert first.max() <= 192
    expected = costs_of(segments, query, "bits")[0][places]
    assert np.array_equal(scanning._all_bits(segments, places, query[0], first), expected)


def test_a_short_shortlist_finds_most(files: tuple[list[Segment], np.ndarray]) -> None:
    segments, stored = files
    queries = clustered(50, 100, seed=5)
    true = np.argsort(-queries @ stored.T, axis=1)[:, :10]
    for coarse in ("bits", "dims"):
        shares = []
        for size in (20, 100, 400):
            found = nearest(segments, None, queries, 10, Scan(coarse, shortlist=size))
            shares.append(
                np.mean([len({*one.positions} & {*right}) for one, right in zip(found, true, strict=True)]) / 10
            )
        assert shares == sorted(shares)
        assert shares[-1] > 0.95


@pytest.mark.parametrize("coarse", ["none", "bits", "dims"])
@pytest.mark.parametrize("share", [0.0, 0.001, 0.9])
def test_only_what_a_mask_lets_through_is_found(
    coarse: str, share: float, files: tuple[list[Segment], np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "_FEW", 50)  # so that the first pass is used with a mask, too
    segments, _ = files
    mask = np.random.default_rng(1).random(3000) < share
    (one,) = nearest(segments, mask, clustered(1, 100, seed=5), 10, Scan(coarse, shortlist=300))
    assert mask[one.positions].all()
    assert len(one.positions) == min(10, mask.sum())


def test_equal_ones_come_in_order(tmp_path: Path) -> None:
    vectors = np.repeat(clustered(1, 70), 30, axis=0)
    segments = [segment_of(tmp_path, vectors[:20]), segment_of(tmp_path, vectors[20:], 21)]
    for coarse in ("none", "bits", "dims"):
        (one,) = nearest(segments, None, vectors[:1], 5, Scan(coarse, shortlist=5))
        assert one.positions.tolist() == [0, 1, 2, 3, 4] or coarse != "none"
        assert one.positions.tolist() == sorted(one.positions)


def test_many_queries_and_threads_give_what_one_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = clustered(3000, 384)
    segments = [segment_of(tmp_path, vectors[:1000]), segment_of(tmp_path, vectors[1000:], 1001)]
    queries = clustered(40, 384, seed=5)
    for coarse in ("none", "bits", "dims", scanning.FIRST_BITS):
        alone = np.concatenate([costs_of(segments, query[None], coarse) for query in queries])
        monkeypatch.setitem(scanning._CHUNKS, coarse, 100)
        monkeypatch.setattr(scanning, "cores", lambda: 3)
        np.testing.assert_allclose(costs_of(segments, queries, coarse), alone, atol=1e-5)


def test_measured_sizes_reach_the_recall(tmp_path: Path) -> None:
    vectors = clustered(4000, 128)
    segments = [segment_of(tmp_path, vectors[:1500]), segment_of(tmp_path, vectors[1500:], 1501)]
    living = np.ones(4000, bool)
    living[::7] = False
    stored = restore(store(vectors, "int8"), "int8")

    def nearest_of(queries: np.ndarray) -> np.ndarray:
        return np.argsort(np.where(living, -queries @ stored.T, 9), axis=1)[:, :10]

    sample = tuning.Sample.of(clustered(64, 128, seed=7), segments, living)
    assert np.array_equal(sample.true, nearest_of(sample.queries))
    sizes = tuning.measured(sample, segments, living)
    assert sizes.rows == living.sum()
    assert {*sizes.shortlists} == {"bits", "dims"}
    queries = clustered(60, 128, seed=8)
    true = nearest_of(queries)
    for coarse in ("bits", "dims"):
        by_recall = [*sizes.shortlists[coarse].values()]
        assert by_recall == sorted(by_recall)
        for recall in (0.8, 0.95):
            scan = Scan(coarse, recall, sizes.shortlists[coarse][str(recall)])
            found = nearest(segments, living, queries, 10, scan)
            share = np.mean([len({*one.positions} & {*right}) for one, right in zip(found, true, strict=True)]) / 10
            assert recall - 0.08 < share


def test_sizes_grow_with_what_there_is_and_what_is_asked_for() -> None:
    sizes = tuning.Sizes(100_000, {"bits": {"0.9": 50, "0.99": 3000}, "dims": {"0.99": 5000}})

    def chosen(scan: Scan, count: int = 100_000, k: int = 10, *, narrow: bool = False) -> tuple[str | None, int | None]:
        made = sizes.scan(scan, count, k, narrow=narrow)
        return made.coarse, made.shortlist

    assert chosen(Scan()) == ("bits", 3000)
    assert chosen(Scan(), 150_000) == ("bits", 4500)
    assert chosen(Scan("dims"), k=40) == ("dims", 20_000)
    assert chosen(Scan(recall=0.85)) == ("bits", 2000)  # more than it needs, at no cost
    assert chosen(Scan(recall=1)) == ("none", None)
    assert chosen(Scan("none")) == ("none", None)
    assert chosen(Scan(shortlist=77)) == ("bits", 77)
    assert chosen(Scan(), tuning.EXACT_UP_TO) == ("none", None)
    assert chosen(Scan(), narrow=True) == ("dims", 5000)
    assert chosen(Scan("bits"), narrow=True) == ("bits", 3000)
    assert not sizes.outgrown_by(200_000)
    assert sizes.outgrown_by(200_001)
    sizes = tuning.Sizes(100_000, {"bits": {"0.99": 30_000}, "dims": {"0.99": 5000}})
    assert chosen(Scan()) == ("dims", 5000)
    sizes = tuning.Sizes()
    assert chosen(Scan()) == ("none", None)
    assert chosen(Scan("bits")) == ("bits", 100_000)


def test_first_bits_are_read_first_where_they_leave_few() -> None:
    measured = {"bits": {"0.99": 100}, "dims": {"0.99": 100}, scanning.FIRST_BITS: {"0.99": 20_000}}
    sizes = tuning.Sizes(1_000_000, measured)

    def first(scan: Scan, count: int = 1_000_000, k: int = 10) -> int | None:
        return sizes.first(sizes.scan(scan, count, k), count, k)

    assert first(Scan()) == 20_000
    assert first(Scan(), 1_500_000) == 30_000
    assert first(Scan(), 350_000) is None  # more than a twentieth
    assert first(Scan("bits", shortlist=100)) == 20_000
    assert first(Scan("bits", shortlist=4000)) == 32_000
    assert first(Scan("bits", shortlist=20_000)) is None
    assert first(Scan("dims")) is None
    assert first(Scan("bits", 0.999, 2000)) is None
    assert tuning.Sizes(1_000_000, {"bits": {"0.99": 100}}).first(Scan("bits", 0.99, 2000), 1_000_000, 10) is None


def test_what_first_bits_must_leave_is_measured_where_there_are_enough(tmp_path: Path) -> None:
    for dims, passes in ((192, {"bits", "dims"}), (256, {"bits", "dims", scanning.FIRST_BITS})):
        segment = segment_of(tmp_path, clustered(2000, dims))
        sample = tuning.Sample.of(clustered(16, dims, seed=7), [segment], None)
        shortlists = tuning.measured(sample, [segment], None).shortlists
        assert {*shortlists} == passes
    assert shortlists[scanning.FIRST_BITS]["0.99"] >= shortlists["bits"]["0.99"]


def test_a_scan_that_cannot_be_is_refused() -> None:
    with pytest.raises(DataError, match="coarse must be one of bits, dims, graph, none"):
        Scan("byte")
    with pytest.raises(DataError, match="shortlist must be a whole number of at least 1"):
        Scan("bits", shortlist=0)
    with pytest.raises(DataError, match="recall must be a share above 0 and up to 1"):
        Scan("bits", 99)


def test_a_file_that_cannot_be_the_one_is_refused(tmp_path: Path) -> None:
    segment = segment_of(tmp_path, clustered(10, 40))
    with pytest.raises(FolderError, match="bytes and should have"):
        open_segment(tmp_path, SegmentEntry(1, segment.entry.file, 9, ""), 40)
    with pytest.raises(FolderError, match="cannot be read"):
        open_segment(tmp_path, SegmentEntry(1, "gone.i8", 9, ""), 40)
    with pytest.raises(FolderError, match="cannot have a file"):
        open_segment(tmp_path, SegmentEntry(1, "../1.i8", 10, ""), 40)
