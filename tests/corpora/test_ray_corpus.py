"""Corpora on a local Ray cluster: actors, raylets, nodes and drivers are killed; no row is lost or there twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
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
PATIENCE = 900  # seconds: a busy machine is not a failure
OPTIONS = CorpusOptions(id="key", vectors="int8", shard_rows=1000)


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


@contextmanager
def meanwhile(action: Callable[[], bool]) -> Iterator[None]:
    """Try `action` until it says that it did something, or all is over."""
    over = threading.Event()

    def keep_trying() -> None:
        while not over.wait(0.1) and not action():
            pass

    with ThreadPoolExecutor(1) as pool:
        tried = pool.submit(keep_trying)
        try:
            yield
        finally:
            over.set()
        tried.result()


def processes_below(root: int) -> dict[int, str]:
    """The processes that `root` has started, and those that they have, with their command lines."""
    listed = subprocess.run(["ps", "-wweo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    processes = [
        (int(pid), int(parent), words) for pid, parent, words in (line.split(None, 2) for line in listed.splitlines())
    ]
    below = {root}
    while True:
        more = {pid for pid, parent, _ in processes if parent in below} - below
        if not more:
            return {pid: words for pid, _, words in processes if pid in below - {root}}
        below |= more


def encoders(root: int) -> list[int]:
    """The processes below `root` of actors that encode just now."""
    return [
        pid
        for pid, words in processes_below(root).items()
        if words.startswith("ray::MapWorker(MapBatches(EncodeBatch)")
    ]


def raylet_below(root: int) -> int:
    """The process of the raylet that `root` has started."""
    (pid,) = (pid for pid, words in processes_below(root).items() if Path(words.split()[0]).name == "raylet")
    return pid


def wait_for_the_end(pids: list[int]) -> None:
    end = time.monotonic() + PATIENCE
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < end, f"{pids} go on"
        time.sleep(0.1)


def rows_written(out: Path) -> int:
    rows = 0
    for path in (out / VECTORS).glob("*.parquet"):
        with suppress(pa.ArrowInvalid, FileNotFoundError):  # it is being written, or was just given its name
            rows += pq.read_metadata(path).num_rows
    return rows


def kill_one(pids: list[int]) -> bool:
    """Kill the process of an actor that encodes, and note which it was."""
    for pid in encoders(os.getpid())[:1]:
        os.kill(pid, signal.SIGKILL)
        pids.append(pid)
    return bool(pids)


def test_an_actor_is_killed(ray: Any, source: Path, expected: Any, tmp_path: Path) -> None:
    RayCluster().start()
    killed: list[int] = []
    with meanwhile(lambda: kill_one(killed)):
        assert embed_on_ray(dt.load().cut(2, 64), str(source), str(tmp_path / "out"), OPTIONS) == ROWS
    assert killed
    check(tmp_path / "out", expected)


@pytest.mark.parametrize("what", ["the driver", "its raylet"])
def test_the_driver_is_killed_or_its_raylet_and_the_next_one_goes_on(
    what: str, source: Path, expected: Any, tmp_path: Path, ray: Any
) -> None:
    program = (
        "import demitasse as dt\n"
        "from demitasse.corpora import ray_corpus\n"
        "ray_corpus._BATCH, ray_corpus._BLOCK = 1000, 100_000\n"
        f"ray_corpus.embed_on_ray(dt.load().cut(2, 64), {str(source)!r}, {str(tmp_path / 'out')!r}, "
        "dt.CorpusOptions(id='key', vectors='int8', shard_rows=1000))"
    )
    driver = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while driver.poll() is None and not rows_written(tmp_path / "out"):
        time.sleep(0.1)
    assert driver.poll() is None, "it ended before it could be killed"
    begun = encoders(driver.pid)
    os.kill(driver.pid if what == "the driver" else raylet_below(driver.pid), signal.SIGKILL)
    assert driver.wait(timeout=PATIENCE) != 0  # without its raylet a driver ends by itself
    wait_for_the_end(begun)  # its actors end with it
    assert 0 < rows_written(tmp_path / "out") < ROWS
    assert embed_on_ray(dt.load().cut(2, 64), str(source), str(tmp_path / "out"), OPTIONS) == ROWS
    check(tmp_path / "out", expected)


@pytest.mark.parametrize("what", ["the node", "its raylet"])
def test_a_node_or_its_raylet_is_lost_in_the_middle(
    what: str, source: Path, expected: Any, tmp_path: Path, ray: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two nodes on one machine; the second is removed with all its processes, or its raylet alone is killed."""
    from ray.cluster_utils import Cluster

    monkeypatch.setattr(ray_corpus, "_BATCH", 1000)
    monkeypatch.setattr(ray_corpus, "_BLOCK", 100_000)
    # The first has no room for all encoders.
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    try:
        second = nodes.add_node(num_cpus=6)
        raylet = second.all_processes["raylet"][0].process.pid
        ray.init(address=nodes.address, log_to_driver=False)
        lost: list[int] = []  # rows that were written by then

        def lose() -> bool:
            if not rows_written(tmp_path / "out") or not encoders(raylet):
                return False
            lost.append(rows_written(tmp_path / "out"))
            if what == "the node":
                nodes.remove_node(second, allow_graceful=False)
            else:
                os.kill(raylet, signal.SIGKILL)
            return True

        cluster = RayCluster(nodes.address, actor_cores=1)
        with meanwhile(lose):
            assert embed_on_ray(dt.load().cut(2, 64), str(source), str(tmp_path / "out"), OPTIONS, cluster) == ROWS
        assert 0 < lost[0] < ROWS
        assert sum(node["Alive"] for node in ray.nodes()) == 1
        check(tmp_path / "out", expected)
    finally:
        ray.shutdown()
        nodes.shutdown()


def test_bad_and_empty_rows_are_left_out_with_reasons(
    tmp_path: Path, ray: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # paths may be relative
    texts = ["a cup", None, " ", "a mug"]
    pq.write_table(pa.table({"key": [1, 2, 3, 4], "text": texts, "lang": ["en"] * 4}), tmp_path / "a.parquet")
    options = CorpusOptions(id="key", keep=("lang",))
    out = tmp_path / "out"
    assert embed_on_ray(dt.load().cut(0, 32), "a.parquet", "out", options) == 2
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
