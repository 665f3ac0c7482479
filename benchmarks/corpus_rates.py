"""`python benchmarks/corpus.py rates`: `embed` beside other ways to encode the same corpus.

Every way runs in processes of its own, in turns with the others, so that what else the machine does meets all alike.
Its clock begins when its model is loaded (and Ray has started); the seconds before that stand beside. Memory is that of
all its processes together, shared pages counted once. A million texts with layers take too long for two cores, so
deeper cuts encode fewer, and the peers, which are slower, a sample of these: rows a second are given, and the seconds
that a million would take.

Then each way that goes on after a kill, and the plain loop, are killed (SIGKILL) when half of their time is over, and
started again: what both runs take together, less the unbroken run, was lost. What is there then must be complete.
"""

from __future__ import annotations

import json
import shutil
import signal
import statistics
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from corpus_texts import write_corpus

ROWS = {0: 1_000_000, 1: 120_000, 3: 50_000, 6: 24_000}
DIMS = {0: 64, 1: 128, 3: 128, 6: 384}
MILLION = 1_000_000
SAMPLES = {0: 40_000, 1: 8000, 3: 3000, 6: 2000}  # of the peers
SHARDS = 10  # as a million rows have, so that a kill costs the same share of a corpus that is smaller
LOOK = 0.2  # seconds between two looks at the memory, and at the clock

ENCODE = """
import demitasse as dt, pyarrow.parquet as pq
encoder, texts = dt.load().cut({layers}, {dims}), pq.read_table({source!r})["text"].to_pylist()
begin()
encoder.encode(texts)
"""
EMBED = """
import demitasse as dt, pyarrow.parquet
encoder = dt.load().cut({layers}, {dims})
begin()
dt.embed_corpus(encoder, {source!r}, {out!r}, dt.CorpusOptions(vectors="int8", shard_rows={shard}))
"""
LOOP = """
import demitasse as dt, numpy as np, pyarrow as pa, pyarrow.parquet as pq
encoder = dt.load().cut({layers}, {dims})
begin()
writer = None
for batch in pq.ParquetFile({source!r}).iter_batches(1000):
    vectors = dt.store(encoder.encode(batch.column("text").to_pylist()), "int8")
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), vectors.shape[1])
    table = pa.table({{"id": batch.column("id"), "vector": column}})
    writer = writer or pq.ParquetWriter({out!r}, table.schema)
    writer.write_table(table)
writer.close()
"""
RAY = """
import demitasse as dt
from demitasse.corpora.ray_corpus import RayCluster, embed_on_ray
encoder, cluster = dt.load().cut({layers}, {dims}), RayCluster("local")
cluster.start()
begin()
embed_on_ray(encoder, {source!r}, {out!r}, dt.CorpusOptions(id="id", vectors="int8", shard_rows={shard}), cluster)
"""
SENTENCE_TRANSFORMERS = """
import pyarrow.parquet as pq
from sentence_transformers import SentenceTransformer
model, texts = SentenceTransformer({model!r}, device="cpu"), pq.read_table({source!r})["text"].to_pylist()[:{sample}]
model[0].auto_model.encoder.layer = model[0].auto_model.encoder.layer[:{layers}]
begin()
model.encode(texts, show_progress_bar=False)
"""
FASTEMBED = """
import pyarrow.parquet as pq
from fastembed import TextEmbedding

if __name__ == "__main__":  # its helpers import this file again
    name, texts = "sentence-transformers/all-MiniLM-L6-v2", pq.read_table({source!r})["text"].to_pylist()[:{sample}]
    model = TextEmbedding(name, specific_model_path={graph!r}, threads=1)
    begin()
    for vector in model.embed(texts, parallel=2):
        pass
"""
START = """
import json, sys, time
def begin():
    global began, used
    began, used = time.monotonic(), time.process_time()
"""
END = """
if __name__ == "__main__":
    print(json.dumps([began, time.monotonic() - began, time.process_time() - used]))
"""


@dataclass(frozen=True)
class Way:
    """A way to encode a corpus: its code, the Python that runs it, and how many texts it gets at each depth."""

    code: str
    python: str
    rows: dict[int, int]
    killed: bool = False


@dataclass(frozen=True)
class Took:
    """Seconds from one moment to the next, and the most memory."""

    start: float  # until the model is loaded
    seconds: float  # from then on
    processor: float  # of the first process, in that time
    whole: float
    peak_mb: float


def ways(model: Path | None, python_of_ray: str | None, python_of_fastembed: str | None) -> dict[str, Way]:
    """Those that can run here."""
    here = sys.executable
    found = {"embed": Way(EMBED, here, ROWS, killed=True), "encode": Way(ENCODE, here, ROWS)}
    found["loop"] = Way(LOOP, here, ROWS, killed=True)
    if python_of_ray:
        found["ray"] = Way(RAY, python_of_ray, ROWS, killed=True)
    if model is not None:
        found["sentence-transformers"] = Way(SENTENCE_TRANSFORMERS, here, SAMPLES)
        if python_of_fastembed:
            found["fastembed"] = Way(FASTEMBED, python_of_fastembed, {6: SAMPLES[6]})
    return found


def rates(
    folder: Path, values: dict[str, Any], sentences: list[str], layers: int, rounds: int, found: dict[str, Way]
) -> dict[str, Any]:
    """What each way takes at a depth; `values` are those that the programs have at every depth."""
    count, source = ROWS[layers], folder / f"{ROWS[layers]}.parquet"
    write_corpus(source, count, sentences)
    chosen = {name: way for name, way in found.items() if layers in way.rows}
    values = values | {"layers": layers, "dims": DIMS[layers], "source": str(source), "out": str(folder / "out")}
    values |= {"shard": count // SHARDS, "sample": SAMPLES[layers]}
    turns: dict[str, list[Took]] = {name: [] for name in chosen}
    for turn in range(rounds):
        for name, way in chosen.items():
            clear(folder / "out")
            took, _ = launch(way, folder, values)
            assert took is not None
            turns[name].append(took)
            print(f"{layers} layers, turn {turn}: {name} {took}", file=sys.stderr, flush=True)
    row: dict[str, Any] = {"layers": layers, "cut": f"{layers}x{DIMS[layers]}", "rounds": rounds, "ways": {}}
    for name, way in chosen.items():
        about = summary(turns[name], turns["embed"], way.rows[layers], count)
        if way.killed:
            about["kill"] = kill(way, folder, values, turns[name])
            print(f"{layers} layers: {name} {about['kill']}", file=sys.stderr, flush=True)
        row["ways"][name] = about
    clear(folder / "out")
    return row


def summary(turns: list[Took], ours: list[Took], rows: int, our_rows: int) -> dict[str, Any]:
    start, each = (
        statistics.median(values) for values in ([t.start for t in turns], [t.seconds / rows for t in turns])
    )
    faster = [(a.seconds / rows) / (b.seconds / our_rows) for a, b in zip(turns, ours, strict=True)]
    return {
        "rows": rows,
        "rows_per_second": round(1 / each, 1),
        "seconds": [round(took.seconds, 2) for took in turns],
        "start_seconds": round(start, 2),
        "seconds_of_a_million": round(start + each * MILLION),
        "peak_mb": round(max(took.peak_mb for took in turns)),
        "processor_seconds": [round(took.processor, 2) for took in turns],
        "embed_is_faster": round(statistics.median(faster), 3),
        "embed_is_faster_by_turn": [round(ratio, 3) for ratio in faster],
    }


def kill(way: Way, folder: Path, values: dict[str, Any], turns: list[Took]) -> dict[str, Any]:
    """A run that is killed at half of its time, and the one that ends it."""
    half = statistics.median(took.start + took.seconds / 2 for took in turns)
    unbroken = statistics.median(took.whole for took in turns)
    took: Took | None = turns[0]
    while took is not None:  # again, and sooner, if the machine was so fast just now that it ended before
        clear(folder / "out")
        took, first = launch(way, folder, values, kill_after=half)
        half *= 0.8
    _, second = launch(way, folder, values)
    ids = pq.read_table(folder / "out" / ("vectors" if way.code == RAY else ""), columns=["id"])["id"]
    assert sorted(ids.to_pylist()) == list(range(ROWS[values["layers"]]))
    lost = first + second - unbroken
    found = {"killed_after": first, "second_run": second, "unbroken": unbroken, "lost": lost}
    return {name: round(seconds, 1) for name, seconds in found.items()} | {"lost_share": round(lost / unbroken, 3)}


def launch(
    way: Way, folder: Path, values: dict[str, Any], kill_after: float | None = None
) -> tuple[Took | None, float]:
    """Run a way in a process of its own; what it took, None if it was killed, and its seconds in all."""
    program = folder / "program.py"
    program.write_text(START + way.code.format(**values) + END)
    launched, peak = time.monotonic(), 0.0
    with (folder / "printed").open("w+") as printed:
        process = subprocess.Popen([way.python, program], stdout=printed)
        while process.poll() is None:
            time.sleep(LOOK)
            if kill_after is None:
                peak = max(peak, megabytes(process.pid))
            elif time.monotonic() - launched > kill_after:
                process.kill()
        whole = time.monotonic() - launched
        if process.returncode == -signal.SIGKILL:
            return None, whole
        assert process.returncode == 0, process.returncode
        printed.seek(0)
        began, seconds, processor = json.loads(printed.read().splitlines()[-1])
    return Took(began - launched, seconds, processor, whole, peak), whole


def megabytes(root: int) -> float:
    """The memory of a process and of those below it; pages that several share are divided among them."""
    parents = {}
    for folder in Path("/proc").iterdir():
        with suppress(OSError):  # it has ended
            if folder.name.isdigit():
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    below = {root}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    size = 0
    for pid in below:
        with suppress(OSError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            size += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return size / 1024


def clear(out: Path) -> None:
    for path in (out, out.with_name(out.name + ".building")):
        shutil.rmtree(path, ignore_errors=True)
    if out.exists():
        out.unlink()
