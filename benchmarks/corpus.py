"""Corpora: what `demitasse embed` does in rows per second, memory and time lost to kills.

    python benchmarks/corpus.py rates  --json benchmarks/results/corpus-rates.json
    python benchmarks/corpus.py kills --rows 10e6 --json benchmarks/results/corpus-kills.json
    python benchmarks/corpus.py plan --rows 1e6 --json benchmarks/results/corpus-plan.json

Texts are made from the sentences that ship with demitasse: each has one of its words replaced by two others, so that
most of them differ. `rates` has `embed` (a Parquet file to a dataset of int8 vectors), `Encoder.encode` of the same
texts that are in memory already, and a plain loop (a thousand rows read, encoded and written, and then the next) take
turns, each in a process of its own, and compares seconds of the same turn: this cancels most of what else the machine
does. `kills` embeds a corpus once unbroken and once killed (SIGKILL) five times at random, and compares all rows.
`plan` times a sample of a corpus as `demitasse plan --count --sample` does, embeds the corpus, and times the sample
once more: the machine may have become slower or faster meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import demitasse as dt
from demitasse.host.bundled import corpus
from demitasse.host.machine import machine, versions
from demitasse.planning.corpus_cost import time_sample

GROUP = 100_000
ROWS = {0: 1_000_000, 1: 60_000, 3: 30_000, 6: 15_000}
DIMS = {0: 64, 1: 128, 3: 128, 6: 384}
KILLS = 5

ENCODE = """
import demitasse as dt, pyarrow.parquet as pq
encoder, texts = dt.load().cut({layers}, {dims}), pq.read_table({source!r})["text"].to_pylist()
began = time.monotonic()
encoder.encode(texts)
"""
EMBED = """
import demitasse as dt, pyarrow.parquet
encoder = dt.load().cut({layers}, {dims})
began = time.monotonic()
dt.embed_corpus(encoder, {source!r}, {out!r}, dt.CorpusOptions(vectors="int8", shard_rows={shard}))
"""
LOOP = """
import demitasse as dt, numpy as np, pyarrow as pa, pyarrow.parquet as pq
encoder = dt.load().cut({layers}, {dims})
began, writer = time.monotonic(), None
for batch in pq.ParquetFile({source!r}).iter_batches(1000):
    vectors = dt.store(encoder.encode(batch.column("text").to_pylist()), "int8")
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), vectors.shape[1])
    table = pa.table({{"id": batch.column("id"), "vector": column}})
    writer = writer or pq.ParquetWriter({out!r} + ".parquet", table.schema)
    writer.write_table(table)
writer.close()
"""
PROGRAMS = {"encode": ENCODE, "embed": EMBED, "loop": LOOP}
START = "import time, resource\n"
END = """
print(time.monotonic() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time() - used)
"""


def texts(seed: int = 0) -> Iterator[str]:
    """Endless short texts."""
    chance, sentences = random.Random(seed), [sentence.split() for sentence in corpus()]
    words = sorted({word for sentence in sentences for word in sentence})
    while True:
        sentence = list(chance.choice(sentences))
        place = chance.randrange(len(sentence))
        sentence[place : place + 1] = chance.choices(words, k=2)
        yield " ".join(sentence)


def write_corpus(path: Path, rows: int) -> None:
    schema, made = pa.schema([("id", pa.int64()), ("text", pa.string())]), texts()
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, GROUP):
            ids = range(start, min(rows, start + GROUP))
            writer.write_table(pa.table([pa.array(ids), pa.array([next(made) for _ in ids])], schema=schema))


def run(program: str, **values: Any) -> tuple[float, float, float]:
    """Seconds, without imports and loading, peak megabytes, and seconds of the processor of a process."""
    code = START + program.format(**values).replace("began", "used = time.process_time()\nbegan", 1) + END
    ended = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    seconds, kilobytes, processor = ended.stdout.split()
    return float(seconds), float(kilobytes) / 1024, float(processor)


def rates(folder: Path, rounds: int, scale: float, depths: list[int]) -> dict[str, Any]:
    found = []
    for layers in depths:
        rows, source, out = int(ROWS[layers] * scale), folder / f"{layers}.parquet", folder / "out"
        write_corpus(source, rows)
        turns: dict[str, list[tuple[float, float, float]]] = {name: [] for name in PROGRAMS}
        for _ in range(rounds):
            for name, program in PROGRAMS.items():
                shutil.rmtree(out, ignore_errors=True)
                values = {"layers": layers, "dims": DIMS[layers], "source": str(source), "out": str(out)}
                turns[name].append(run(program, **values, shard=GROUP))
        row: dict[str, Any] = {"cut": f"{layers}x{DIMS[layers]}", "rows": rows}
        for name, measured in turns.items():
            row[name] = {
                "rows_per_second": round(statistics.median(rows / seconds for seconds, _, _ in measured)),
                "peak_mb": round(max(peak for _, peak, _ in measured)),
                "seconds": [round(seconds, 2) for seconds, _, _ in measured],
                "processor_seconds": [round(used, 2) for _, _, used in measured],
            }
        for name in ("encode", "loop"):
            pairs = list(zip(turns[name], turns["embed"], strict=True))
            row[f"embed_by_{name}"] = round(statistics.median(theirs[0] / ours[0] for theirs, ours in pairs), 3)
            row[f"by_processor_seconds_{name}"] = round(statistics.median(a[2] / b[2] for a, b in pairs), 3)
        found.append(row)
        print(json.dumps(row), flush=True)
    return {"rates": found, "rounds": rounds}


def plan(folder: Path, rows: int, layers: list[int]) -> dict[str, Any]:
    found = []
    for depth in layers:
        count = max(GROUP // 10, int(rows * ROWS[depth] / ROWS[0]))
        source, out, sample = folder / "plan.parquet", folder / "planned", list(islice(texts(seed=1), GROUP // 5))
        write_corpus(source, count)
        encoder = dt.load().cut(depth, DIMS[depth])
        before = time_sample(encoder, [depth], sample, 15)[depth]
        shutil.rmtree(out, ignore_errors=True)
        values = {"layers": depth, "dims": DIMS[depth], "source": str(source), "out": str(out)}
        seconds, _, _ = run(EMBED, **values, shard=GROUP)
        after = time_sample(encoder, [depth], sample, 15)[depth]
        predicted = count / statistics.harmonic_mean([before, after])
        row = {"cut": f"{depth}x{DIMS[depth]}", "rows": count, "texts_per_second": [round(before), round(after)]}
        row |= {"predicted_seconds": round(predicted, 1), "measured_seconds": round(seconds, 1)}
        row["predicted_by_measured"] = round(predicted / seconds, 3)
        found.append(row)
        print(json.dumps(row), flush=True)
    return {"plan": found}


def command(source: Path, out: Path) -> list[str]:
    options = ["--cut", "0x64", "--vectors", "int8", "--out", str(out)]
    return [sys.executable, "-m", "demitasse", "embed", str(source), *options]


def watched(arguments: list[str], kill_after: float | None) -> tuple[float, list[float], bool]:
    """Run a command; its seconds, its memory every second in megabytes, and whether it was killed."""
    began, memory = time.monotonic(), []
    process = subprocess.Popen(arguments)
    while process.poll() is None:
        time.sleep(1)
        if kill_after is not None and time.monotonic() - began > kill_after:
            process.send_signal(signal.SIGKILL)
        try:
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
            memory += [int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:")]
        except OSError:
            pass
    assert process.returncode in (0, -signal.SIGKILL), process.returncode
    return time.monotonic() - began, memory, process.returncode != 0


def kills(folder: Path, rows: int) -> dict[str, Any]:
    source, whole, broken = folder / "corpus.parquet", folder / "whole", folder / "broken"
    write_corpus(source, rows)
    print(f"{rows:,} rows written", flush=True)
    unbroken, memory, _ = watched(command(source, whole), None)
    print(f"unbroken: {unbroken:.0f} s, {rows / unbroken:,.0f} rows/s, peak {max(memory):.0f} MB", flush=True)
    chance, runs, peaks = random.Random(1), [], [max(memory)]
    while True:
        limit = chance.uniform(0.05, 0.3) * unbroken if len(runs) < KILLS else None
        seconds, used, killed = watched(command(source, broken), limit)
        runs.append({"seconds": round(seconds, 1), "killed": killed})
        peaks.append(max(used))
        print(runs[-1], flush=True)
        if not killed:
            break
    minutes = [round(statistics.mean(memory[place : place + 30])) for place in range(0, len(memory), 30)]
    return {
        "rows": rows,
        "unbroken_seconds": round(unbroken, 1),
        "rows_per_second": round(rows / unbroken),
        "runs_of_the_killed_one": runs,
        "seconds_of_all_runs": round(sum(one["seconds"] for one in runs), 1),
        "peak_mb": round(max(peaks)),
        "mb_by_half_minute": minutes,
        **compared(whole, broken, rows),
    }


def compared(one: Path, other: Path, rows: int) -> dict[str, Any]:
    """Row by row."""
    equal, ids = 0, 0
    names = [sorted(path.name for path in folder.glob("*.parquet")) for folder in (one, other)]
    assert names[0] == names[1]
    for name in names[0]:
        first, second = pq.read_table(one / name), pq.read_table(other / name)
        assert first.equals(second), name
        assert first["id"].to_pylist() == list(range(ids, ids + len(first))), name
        equal, ids = equal + len(first), ids + len(first)
    assert equal == rows, (equal, rows)
    same = all((one / name).read_bytes() == (other / name).read_bytes() for name in names[0])
    size = sum((one / name).stat().st_size for name in names[0])
    return {"files": len(names[0]), "rows_equal": equal, "bytes_equal": same, "bytes": size}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["rates", "kills", "plan"])
    parser.add_argument("--rows", type=float, default=10e6)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of rows of rates")
    parser.add_argument("--layers", type=int, nargs="+", default=list(ROWS), help="of rates and plan")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--folder", type=Path, help="where to write, a temporary folder by default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        if options.what == "rates":
            result = rates(Path(folder), options.rounds, options.scale, options.layers)
        elif options.what == "plan":
            result = plan(Path(folder), int(options.rows), options.layers)
        else:
            result = kills(Path(folder), int(options.rows))
    load = os.getloadavg()[1]  # others on the machine
    result = {"machine": machine(), "versions": versions(), "load_average": round(load, 1), **result}
    print(json.dumps(result, indent=1))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
