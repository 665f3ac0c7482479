"""Corpora: what `demitasse embed` does in rows per second, memory and time lost to kills.

    python benchmarks/corpus.py rates --sentences sentences.txt.gz --model all-MiniLM-L6-v2 --ray RAY_PYTHON \\
        --fastembed FASTEMBED_PYTHON --json benchmarks/results/corpus-rates.json
    python benchmarks/corpus.py kills --rows 10e6 --json benchmarks/results/corpus-kills.json
    python benchmarks/corpus.py plan --rows 1e6 --json benchmarks/results/corpus-plan.json

Texts are made from sentences: each has one of its words replaced by two others, so that most of them differ. `rates`
has `embed` (a Parquet file to a dataset of int8 vectors) and other ways take turns: corpus_rates.py. `kills` embeds a
corpus once unbroken and once killed (SIGKILL) five times at random, and compares all rows. `plan` times a sample of a
corpus as `demitasse plan --count --sample` does, embeds the corpus, and times the sample once more: the machine may
have become slower or faster meanwhile. Of `rates` and `plan`, depths that the JSON has already are not measured again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

import peers
import pyarrow.parquet as pq
from corpus_rates import DIMS, ROWS, clear, launch, rates, ways
from corpus_texts import GROUP, read_sentences, texts, write_corpus

import demitasse as dt
from demitasse.host.machine import machine, versions
from demitasse.planning.corpus_cost import time_sample

KILLS = 5
SAMPLED = 15  # seconds


def plan(folder: Path, sentences: list[str], rows: int, depth: int) -> dict[str, Any]:
    """What a sample says before and after, and what the run takes, its start left out as `demitasse plan` does."""
    count = max(GROUP // 10, int(rows * ROWS[depth] / ROWS[0]))
    source, sample = folder / f"{count}.parquet", list(islice(texts(sentences, seed=1), GROUP // 5))
    write_corpus(source, count, sentences)
    encoder = dt.load().cut(depth, DIMS[depth])
    before = time_sample(encoder, [depth], sample, SAMPLED)[depth]
    clear(folder / "out")
    values = {"layers": depth, "dims": DIMS[depth], "source": str(source), "out": str(folder / "out"), "shard": GROUP}
    took, _ = launch(ways(None, None, None)["embed"], folder, values)
    assert took is not None
    after = time_sample(encoder, [depth], sample, SAMPLED)[depth]
    predicted = count / statistics.harmonic_mean([before, after])
    return {
        "layers": depth,
        "cut": f"{depth}x{DIMS[depth]}",
        "rows": count,
        "texts_per_second": [round(before), round(after)],
        "predicted_seconds": round(predicted, 1),
        "predicted_before": round(count / before, 1),
        "measured_seconds": round(took.seconds, 1),
        "predicted_by_measured": round(predicted / took.seconds, 3),
    }


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


def kills(folder: Path, sentences: list[str], rows: int) -> dict[str, Any]:
    source, whole, broken = folder / "corpus.parquet", folder / "whole", folder / "broken"
    write_corpus(source, rows, sentences)
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
    parser.add_argument(
        "--sentences", type=Path, help="one a line, .gz or not; default: those that ship with demitasse"
    )
    parser.add_argument("--rows", type=float, default=10e6, help="of kills, and of plan without layers")
    parser.add_argument("--rounds", type=int, default=3, help="of rates")
    parser.add_argument("--layers", type=int, nargs="+", default=list(ROWS), help="of rates and plan")
    parser.add_argument("--model", type=Path, help="all-MiniLM-L6-v2, which the peers in rates run")
    parser.add_argument("--ray", help="the Python of an environment with demitasse[ray], such as .venv-ray/bin/python")
    parser.add_argument("--fastembed", help="the Python of an environment with fastembed and pyarrow")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--folder", type=Path, help="where to write; corpora that are there are used again")
    options = parser.parse_args()
    sentences = read_sentences(options.sentences)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if options.what == "kills":
            finish(options.json, kills(folder, sentences, int(options.rows)))
            return
        if options.what == "rates":
            found = ways(options.model, options.ray, options.fastembed)
            values = {"model": str(options.model), "graph": str(folder / "graph")}
            if options.fastembed and not (folder / "graph").exists():
                peers.token_states_graph(str(options.model), folder / "graph")
        rows = {row["layers"]: row for row in known(options.json).get(options.what, [])}
        for depth in options.layers:
            if depth not in rows:
                rows[depth] = (
                    rates(folder, values, sentences, depth, options.rounds, found)
                    if options.what == "rates"
                    else plan(folder, sentences, int(options.rows), depth)
                )
                finish(options.json, {options.what: [rows[layers] for layers in sorted(rows)]})


def known(path: Path | None) -> dict[str, Any]:
    """What an earlier run has measured; depths that are there are not measured again."""
    return json.loads(path.read_text()) if path is not None and path.exists() else {}


def finish(path: Path | None, result: dict[str, Any]) -> None:
    load = os.getloadavg()[1]  # others on the machine
    result = {"machine": machine(), "versions": versions(), "load_average": round(load, 1), **result}
    print(json.dumps(result, indent=1), flush=True)
    if path:
        path.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
