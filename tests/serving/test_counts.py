"""What is counted: by one process, by several, and after one of them is gone."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from demitasse.encoding.vectors import store, unit_length
from demitasse.serving.keys import Keys
from demitasse.serving.metrics import BUCKETS, KINDS, LOAD, Metrics, merged, text
from demitasse.serving.number_text import array_texts, base64_texts
from demitasse.serving.scheduler import Load
from demitasse.serving.serve import listening
from demitasse.serving.worker_counts import WorkerCounts


@given(st.lists(st.floats(0, 100), max_size=20), st.lists(st.floats(0, 100), max_size=20))
def test_what_prometheus_reads_is_the_sum_of_all_workers(first: list[float], second: list[float]) -> None:
    workers = [Metrics(), Metrics()]
    for worker, values in zip(workers, (first, second), strict=True):
        for value in values:
            worker.observe("demitasse_embed_seconds", value, layers="3")
            worker.add("demitasse_requests_total", path='/a"\\\n', status="200")
        worker.set("demitasse_queue_tokens", len(values))
        worker.set("demitasse_queue_wait_seconds", len(values))
        worker.set("demitasse_allowed_layers", len(values))
    lines = text(worker.snapshot() for worker in workers)
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(lines)
        for sample in family.samples
    }
    assert samples["demitasse_queue_tokens",] == len(first) + len(second)
    assert samples["demitasse_queue_wait_seconds",] == max(len(first), len(second))
    assert samples["demitasse_allowed_layers",] == min(len(first), len(second))
    if first or second:
        both = [*first, *second]
        assert samples["demitasse_requests_total", '/a"\\\n', "200"] == len(both)
        assert samples["demitasse_embed_seconds_count", "3"] == len(both)
        assert samples["demitasse_embed_seconds_sum", "3"] == pytest.approx(sum(both))
        for end in BUCKETS["demitasse_embed_seconds"]:
            below = sum(value <= end for value in both)
            assert samples["demitasse_embed_seconds_bucket", "3", str(float(end)) if end % 1 else f"{end:g}"] == below


def test_every_number_of_the_engine_is_shown() -> None:
    assert set(LOAD.values()) == set(vars(Load()))
    assert set(LOAD) <= set(KINDS)


def test_counters_of_a_worker_outlive_it_and_gauges_do_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    counts = WorkerCounts(tmp_path, lambda: now)

    def publish(process: int, tokens: int) -> None:
        metrics = Metrics()
        metrics.add("demitasse_tokens_total", tokens)
        metrics.set("demitasse_queue_tokens", tokens)
        monkeypatch.setattr("os.getpid", lambda: process)
        counts.publish(metrics.snapshot())

    def total(name: str) -> float:
        return sum(merged(counts.others()).get(name, {}).values())

    publish(11, 5)
    publish(12, 7)
    assert total("demitasse_tokens_total") == 5  # of the others; its own it knows
    monkeypatch.setattr("os.getpid", lambda: 1)
    assert (total("demitasse_tokens_total"), total("demitasse_queue_tokens")) == (12, 12)
    counts.retire(11)
    assert (total("demitasse_tokens_total"), total("demitasse_queue_tokens")) == (12, 7)
    publish(13, 1)
    monkeypatch.setattr("os.getpid", lambda: 1)
    counts.retire(13)
    counts.retire(14)  # which had not written anything yet
    assert total("demitasse_tokens_total") == 13
    now = 106.0  # what 12 wrote is old by now
    assert (total("demitasse_tokens_total"), total("demitasse_queue_tokens")) == (13, 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["12.json", "gone.json"]


def test_a_full_disk_costs_the_numbers_alone(tmp_path: Path) -> None:
    counts = WorkerCounts(tmp_path / "gone")
    counts.publish(Metrics().snapshot())
    assert counts.others() == []


@given(st.integers(1, 40), st.integers(1, 70), st.integers(0, 99))
def test_written_numbers_are_read_back(rows: int, dims: int, seed: int) -> None:
    vectors = unit_length(np.random.default_rng(seed).normal(size=(rows, dims)).astype(np.float32) ** 3)
    back = np.array([json.loads(row) for row in array_texts(vectors, "float32")])
    assert np.abs(back - vectors).max() <= 0.6e-12
    large = np.abs(vectors) > 2e-5
    assert np.array_equal(back.astype(np.float32)[large], vectors[large])
    for kind in ("float16", "int8", "binary"):
        stored = store(vectors, kind)
        plain = np.array([json.loads(row) for row in array_texts(stored, kind)])
        np.testing.assert_allclose(plain, stored.astype(np.float64), atol=0.6e-12)
        assert len(list(base64_texts(stored, kind))) == rows


def test_ones_zeros_and_negative_zeros_are_numbers() -> None:
    (row,) = array_texts(np.array([[1, -1, 0, -0.0, 1e-30, 0.999999999]], np.float32), "float32")
    assert json.loads(row) == [1, -1, 0, 0, 0, 1]


def test_no_key_is_shown_or_kept() -> None:
    keys = Keys.of(["a-key-of-ours"])
    assert "a-key-of-ours" not in repr(keys)
    assert b"a-key-of-ours" not in b"".join(keys.digests)


def test_answers_are_sent_without_delay() -> None:
    """asyncio turns Nagle's algorithm off only where a socket says that it is TCP; otherwise replies take 40 ms."""
    with listening("127.0.0.1", 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP
