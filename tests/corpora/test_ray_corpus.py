"""Corpora on a local Ray cluster: actors, nodes and drivers are killed, and no row is lost or there twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import demitasse as dt
from demitasse import CorpusOptions, DataError, FolderError
from demitasse.corpora import ray_corpus
from demitasse.corpora.ray_corpus import VECTORS, RayCluster, actors_for, embed_on_ray
from demitasse.host.bundled import corpus

pytestmark = pytest.mark.ray
ROWS, FILE = 40_000, 2000
OPTIONS = CorpusOptions(id="key", vectors="int8")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, sentences = tmp_path_factory.mktemp("texts"), corpus()
    for start in range(0, ROWS, FILE):
        keys = range(start, start + FILE)
        texts = [f"{sentences[number % len(sentences)]} {number}" for number in keys]
        pq.write_table(pa.table({"key": keys, "text": texts}), folder / f"{start:06d}.parquet")
    return folder


@pytest.fixture(scope="module")
def expected(source: Path) -> Any:
    texts = pq.read_table(source)["text"].to_pylist()
    return dt.store(dt.load().cut(2, 64).encode(texts), "int8")


@pytest.fixture
def ray() -> Iterator[Any]:
    import ray

    yield ray
    ray.shutdown()


def check(out: Path, expected: Any) -> None:
    """Every row is there, once, with its vector."""
    table = pq.read_table(out / VECTORS).sort_by("key")
    assert table["key"].to_pylist() == list(range(ROWS))
    vectors = table["vector"].combine_chunks().values.to_numpy().reshape(ROWS, -1)
    # Batches are others than those of `encode`, so that a number may be rounded to the next.
    assert np.abs(vectors.astype(int) - expected.astype(int)).max() <= 1


def meanwhile(action: Callable[[], bool]) -> threading.Thread:
    """Try `action` until it says that it did something."""

    def keep_trying() -> None:
        for _ in range(600):
            time.sleep(0.1)
            if action():
                return

    thread = threading.Thread(target=keep_trying, daemon=True)
    thread.start()
    return thread


def encoders() -> list[int]:
    """The processes, below this one, of actors that encode just now."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    processes = [
        (int(pid), int(parent), words) for pid, parent, words in (line.split(None, 2) for line in listed.splitlines())
    ]
    ours, found = {os.getpid()}, []
    while True:
        more = {pid for pid, parent, _ in processes if parent in ours} - ours
        if not more:
            break
        ours |= more
    for pid, _, words in processes:
        if pid in ours and words.startswith("ray::MapWorker(MapBatches(EncodeBatch)"):
            found.append(pid)
    return found


def kill_one(pids: list[int]) -> bool:
    """Kill the process of an actor that encodes, and note which it was."""
    for pid in encoders()[:1]:
        os.kill(pid, signal.SIGKILL)
        pids.append(pid)
    return bool(pids)


def test_an_actor_is_killed(ray: Any, source: Path, expected: Any, tmp_path: Path) -> None:
    RayCluster().start()
    killed: list[int] = []
    thread = meanwhile(lambda: kill_one(killed))
    assert embed_on_ray(dt.load().cut(2, 64), str(source), str(tmp_path / "out"), OPTIONS) == ROWS
    thread.join()
    assert killed
    check(tmp_path / "out", expected)


def test_the_driver_is_killed_and_the_next_one_goes_on(source: Path, expected: Any, tmp_path: Path, ray: Any) -> None:
    program = (
        "import demitasse as dt\n"
        "from demitasse.corpora import ray_corpus\n"
        "ray_corpus._BATCH, ray_corpus._FILE = 1000, 1\n"
        "import ray.data\n"
        "ray.data.DataContext.get_current().target_max_block_size = 100_000\n"  # so that there is more than one file
        f"ray_corpus.embed_on_ray(dt.load().cut(2, 64), {str(source)!r}, {str(tmp_path / 'out')!r}, "
        "dt.CorpusOptions(id='key', vectors='int8'))"
    )
    driver = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    vectors = tmp_path / "out" / VECTORS
    while driver.poll() is None and not any(vectors.glob("*.parquet")):
        time.sleep(0.1)
    assert driver.poll() is None, "it ended before it could be killed"
    driver.kill()
    driver.wait()
    time.sleep(5)  # its actors end with it
    before = sum(pq.read_metadata(path).num_rows for path in vectors.glob("*.parquet"))
    assert 0 < before < ROWS
    assert embed_on_ray(dt.load().cut(2, 64), str(source), str(tmp_path / "out"), OPTIONS) == ROWS
    check(tmp_path / "out", expected)


def test_a_node_is_removed_in_the_middle(
    source: Path, expected: Any, tmp_path: Path, ray: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two nodes on one machine; with the second go its raylet and all actors on it."""
    from ray.cluster_utils import Cluster

    monkeypatch.setattr(ray_corpus, "_BATCH", 1000)
    monkeypatch.setattr(ray_corpus, "_FILE", 1)
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 4, "include_dashboard": False})
    try:
        second = nodes.add_node(num_cpus=4)
        ray.init(address=nodes.address, log_to_driver=False)
        removed: list[bool] = []

        def remove() -> bool:
            if not any((tmp_path / "out" / VECTORS).glob("*.parquet")):
                return False
            nodes.remove_node(second, allow_graceful=False)
            removed.append(True)
            return True

        thread = meanwhile(remove)
        cluster = RayCluster(nodes.address, actor_cores=1)
        embed_on_ray(dt.load().cut(2, 64), str(source), str(tmp_path / "out"), OPTIONS, cluster)
        thread.join()
        assert removed
        check(tmp_path / "out", expected)
    finally:
        ray.shutdown()
        nodes.shutdown()


def test_bad_and_empty_rows_are_left_out_with_reasons(tmp_path: Path, ray: Any) -> None:
    texts = ["a cup", None, " ", "a mug"]
    pq.write_table(pa.table({"key": [1, 2, 3, 4], "text": texts, "lang": ["en"] * 4}), tmp_path / "a.parquet")
    options = CorpusOptions(id="key", keep=("lang",))
    out = tmp_path / "out"
    assert embed_on_ray(dt.load().cut(0, 32), str(tmp_path / "a.parquet"), str(out), options) == 2
    table = pq.read_table(out / VECTORS).sort_by("key")
    assert (table["key"].to_pylist(), table["lang"].to_pylist()) == ([1, 4], ["en", "en"])
    (file,) = (out / "_bad_rows").iterdir()
    assert "id 2" in file.read_text()
    with pytest.raises(FolderError, match="was begun with other facts"):
        embed_on_ray(dt.load().cut(1, 32), str(tmp_path / "a.parquet"), str(out), options)


def test_what_cannot_be_done_is_said_before_ray_starts(tmp_path: Path) -> None:
    encoder = dt.load()
    with pytest.raises(DataError, match="no column of ids was named"):
        embed_on_ray(encoder, "a.parquet", str(tmp_path / "out"))
    with pytest.raises(DataError, match="texts are not compared across machines"):
        embed_on_ray(encoder, "a.parquet", str(tmp_path / "out"), CorpusOptions(id="id", deduplicate=True))
    with pytest.raises(DataError, match="the cluster has 3 cores; give it at least 4"):
        actors_for(RayCluster(), {"CPU": 3.0})
