"""Texts per second, latency, start-up, memory and quality on a CPU: demitasse beside its peers, interleaved in one run.

    python benchmarks/encode_cpu.py --model all-MiniLM-L6-v2 --sts STS_FOLDER --passages corpus.jsonl.gz \\
        --json benchmarks/results/encode-cpu.json

MODEL is the sentence-transformers folder that the peers run. int8 is the built-in model, fp32 the same blocks with
float products (research/widen_blocks.py). Every method encodes the same 2,000 STS sentences and 500 passages, in turns.
demitasse is loaded afresh for every turn, so that it sees every word for the first time, as in real use. Quality is the
mean Spearman x100 on the seven STS tests, from the grids in research/results/ (research/sts_grid.py).
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
import peers

import demitasse as dt
from demitasse.host.bundled import BUILT_IN
from demitasse.host.machine import processor

sys.path.insert(0, str(Path(__file__).parents[1] / "research"))
from sts_grid import TEST, read_task, spearman
from widen_blocks import widen

ROOT = Path(__file__).parents[1]
LAYERS = (6, 3, 1, 0)
# The STS grid of each method, in research/results/.
GRIDS = {
    "demitasse int8": "sts-built-in-int8",
    "demitasse fp32": "sts-built-in",
    "sentence-transformers": "sts-minilm-raw",
    "onnxruntime, one graph": "sts-minilm-raw",
    "fastembed": "sts-minilm-raw",
}
ROUNDS = 5
LIBRARIES = (
    "demitasse",
    "onnxruntime",
    "tokenizers",
    "torch",
    "transformers",
    "sentence-transformers",
    "fastembed",
    "model2vec",
)
SINGLE = 200  # sentences encoded one at a time

# A fresh process: imports, loading and the first vector; then the memory after all the sentences.
FRESH = """
import json, sys, time
begun = time.perf_counter()
sys.path.insert(0, {here!r})
{load}
encode(["a small cup"])
first = time.perf_counter() - begun
encode(json.load(open({texts!r})))
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps([first, int(peak.split()[1]) / 1024]))
"""


def methods(model: str, fp32: Path, states: Path, static: Path) -> dict[tuple[str, int], str]:
    """Each method as code that creates it, so that a fresh process can run it too."""
    table = {}
    for layers in LAYERS:
        table["demitasse int8", layers] = (
            f"import demitasse; e = demitasse.load().cut(layers={layers});"
            "encode = lambda t: e.encode(t, progress=False)"
        )
        table["demitasse fp32", layers] = (
            f"import demitasse; e = demitasse.load({str(fp32)!r}).cut(layers={layers});"
            "encode = lambda t: e.encode(t, progress=False)"
        )
        table["sentence-transformers", layers] = (
            f"import peers; encode = peers.sentence_transformers({model!r}, {layers})"
        )
    path = f"__import__('pathlib').Path({str(states)!r})"
    table["onnxruntime, one graph", 6] = f"import peers; encode = peers.onnxruntime_one_graph({path})"
    table["fastembed", 6] = f"import peers; encode = peers.fastembed({path})"
    static_path = f"__import__('pathlib').Path({str(static)!r})"
    table["model2vec, distilled", 0] = f"import peers; encode = peers.model2vec({model!r}, {static_path})"
    return table


def made(code: str) -> peers.Encode:
    names: dict[str, peers.Encode] = {}
    exec(code, names)
    return names["encode"]


def seconds(encode: peers.Encode, texts: list[str]) -> float:
    begun = time.perf_counter()
    encode(texts)
    return time.perf_counter() - begun


def measure(table: dict[tuple[str, int], str], sentences: list[str], passages: list[str], others: list[str]) -> dict:
    kept = {key: made(code) for key, code in table.items()}
    times: dict = {key: {"sentences": [], "passages": [], "single": []} for key in table}
    for turn in range(ROUNDS):
        for key, code in table.items():
            encode = made(code) if key[0].startswith("demitasse") else kept[key]
            encode(others[:200])  # loads what is loaded on first use
            times[key]["sentences"].append(len(sentences) / seconds(encode, sentences))
            single = sentences[turn * SINGLE // ROUNDS :][: SINGLE // ROUNDS]
            times[key]["single"] += [seconds(encode, [text]) for text in single]
            if turn < 3:
                times[key]["passages"].append(len(passages) / seconds(encode, passages))
            print(turn, *key, round(times[key]["sentences"][-1]), file=sys.stderr, flush=True)
    return {
        key: {
            "sentences_a_second": round(float(np.median(value["sentences"])), 1),
            "passages_a_second": round(float(np.median(value["passages"])), 1),
            "p50_ms": round(1000 * float(np.median(value["single"])), 3),
            "p95_ms": round(1000 * float(np.percentile(value["single"], 95)), 3),
        }
        for key, value in times.items()
    }


def fresh(code: str, sentences: list[str]) -> tuple[float, float]:
    """Seconds to the first vector and peak megabytes, each the median of three fresh processes."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(sentences, file)
        file.flush()
        program = FRESH.format(here=str(Path(__file__).parent), load=code, texts=file.name)
        runs = []
        for _ in range(3):
            run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
            runs.append(json.loads(run.stdout.splitlines()[-1]))
    return tuple(round(float(value), 3) for value in np.median(runs, axis=0))


def quality(name: str, layers: int, encode: peers.Encode, folder: Path) -> float:
    """Mean Spearman x100 on the seven tests: from research/results/ where that encoder's grid is, else measured."""
    if name in GRIDS:
        grid = json.loads((ROOT / "research" / "results" / f"{GRIDS[name]}.json").read_text())
        return grid["means"]["test/same"][f"{layers}x384"]
    scores = []
    for task in TEST:
        texts, gold = read_task(folder / f"{task}.jsonl.gz")
        vectors = encode(texts)
        left, right = np.split(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), 2)
        scores.append(spearman((left * right).sum(1), gold))
    return round(float(np.mean(scores)), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--sts", type=Path, required=True)
    parser.add_argument("--passages", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "demitasse-benchmark")
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)

    sentences, _ = read_task(options.sts / "stsb-test.jsonl.gz")
    others, _ = read_task(options.sts / "sick-test.jsonl.gz")
    with gzip.open(options.passages, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    passages = [f"{row['title']} {row['text']}" for row in rows]
    passages = [text for text in passages if 80 <= len(text.split()) <= 140][:500]  # of about 150 tokens
    sentences = sentences[:2000]
    reader = dt.load().reader
    counts = {name: reader.read(texts).lengths.mean() for name, texts in (("s", sentences), ("p", passages))}

    fp32, states, static = options.work / "fp32", options.work / "states", options.work / "static"
    if not fp32.exists():
        widen(BUILT_IN, fp32)
    if not (states / "model.onnx").exists():
        peers.token_states_graph(options.model, states)
    table = methods(options.model, fp32, states, static)
    measured = measure(table, sentences, passages, others)
    for (name, layers), code in table.items():
        row = measured[name, layers]
        row["first_vector_seconds"], row["peak_megabytes"] = fresh(code, sentences)
        encode = made(code)
        if GRIDS.get(name) == "sts-minilm-raw" and name != "sentence-transformers":  # the same model, the same vectors
            same = (encode(others[:50]) * made(table["sentence-transformers", layers])(others[:50])).sum(1)
            assert same.min() > 0.999, (name, same.min())
        row["sts"] = quality(name, layers, encode, options.sts)
        print(name, layers, row, flush=True)
    result = {
        "machine": {"cpu": processor(), "cores": os.cpu_count(), "python": platform.python_version()},
        "versions": {name: version(name) for name in LIBRARIES},
        "sentences": {"texts": len(sentences), "mean_tokens": round(float(counts["s"]), 1)},
        "passages": {"texts": len(passages), "mean_tokens": round(float(counts["p"]), 1)},
        "rows": [{"method": name, "layers": layers, **row} for (name, layers), row in measured.items()],
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
